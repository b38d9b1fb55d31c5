// The inbox as people meet it: the real server, a real Chromium, and what a hand, a keyboard or a stranger does.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';

import { badge, bell, elsewhere, focused, follows, heard, joined, launch, row, sees, tabs, titles, unread, visit } from './browser.mjs';
import { Server } from './server.mjs';

let server;
let browser;

before(async () => {
  server = await Server.start();
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.end();
});

// A test with a browser of its own, in which nothing may go wrong unseen.
function story(name, tell, options = {}) {
  test(name, { timeout: 120_000 }, async () => {
    const context = await browser.newContext({ viewport: { width: 900, height: 700 }, ...options });
    context.setDefaultTimeout(30_000);
    const pages = [];
    context.on('page', (page) => pages.push(page));
    try {
      await tell(context);
      assert.deepEqual(pages.flatMap((page) => page.wrong ?? []), []);
    } finally {
      await context.close();
    }
  });
}

const publish = async (user, ...all) => {
  for (const title of all) await server.publish(user, { title });
};

test('the widget is one small script', async () => {
  const answer = await fetch(`${server.base}/inbox/widget.js`);
  assert.equal(answer.headers.get('content-type'), 'text/javascript; charset=utf-8');
  assert.equal(answer.headers.get('content-encoding'), 'gzip');
  const text = await answer.text();
  const asItIs = await fetch(`${server.base}/inbox/widget.js`, { headers: { 'accept-encoding': 'identity' } });
  assert.equal(asItIs.headers.get('content-encoding'), null);
  assert.equal(await asItIs.text(), text, 'the compressed copy is the same');
  const [plain, small] = [Buffer.byteLength(text), gzipSync(text, { level: 9 }).length];
  assert.ok(small < 15_000, `${small} bytes in gzip`);
  assert.ok(plain < 45_000, `${plain} bytes`);
});

story('the badge is exact, and the newest message stands first', async (context) => {
  await publish('ada', 'One', 'Two', 'Three');
  const page = await visit(server, context, 'ada');
  await sees(() => badge(page), '3');
  assert.equal(await bell(page).getAttribute('aria-label'), 'Notifications, 3 unread');
  await bell(page).click();
  await sees(() => titles(page), ['Three', 'Two', 'One']);
  assert.deepEqual(await unread(page), ['Three', 'Two', 'One']);
  assert.deepEqual(await heard(page, 'open'), [null]);
});

story('more than ninety-nine are not counted out, and come page by page', async (context) => {
  await Promise.all(Array.from({ length: 105 }, (_, n) => publish('many', `Message ${n}`)));
  const page = await visit(server, context, 'many');
  await sees(() => badge(page), '99+');
  await bell(page).click();
  await sees(async () => (await titles(page)).length >= 30, true);
  assert.ok((await titles(page)).length < 105);
  await sees(async () => {
    await page.locator('.scroll').evaluate((one) => one.scrollTo(0, one.scrollHeight));
    return new Set(await titles(page)).size;
  }, 105);
  assert.equal(await page.locator('.more').isVisible(), false);
});

story('an empty inbox says so', async (context) => {
  const page = await visit(server, context, 'nobody');
  await bell(page).click();
  await page.getByText('You are all caught up').waitFor();
  assert.equal(await badge(page), '');
  assert.equal(await page.locator('.tabs').isVisible(), false);
});

story('a tab shows one category and its count', async (context) => {
  await publish('tabs', 'Plain');
  await server.publish('tabs', { title: 'Bill', category: 'billing' });
  await server.publish('tabs', { title: 'Paid', category: 'billing' });
  await server.publish('tabs', { title: 'Login', category: 'security_alerts' });
  const page = await visit(server, context, 'tabs');
  await bell(page).click();
  await sees(() => tabs(page), ['All4', 'Billing2', 'Security alerts1']);
  await page.getByRole('tab', { name: 'Billing' }).click();
  await sees(() => titles(page), ['Paid', 'Bill']);
  await row(page, 'Paid').locator('.title').click();
  await sees(() => tabs(page), ['All3', 'Billing1', 'Security alerts1']);
  await page.getByRole('tab', { name: 'All' }).click();
  await sees(() => titles(page), ['Login', 'Paid', 'Bill', 'Plain']);
  assert.deepEqual(await unread(page), ['Login', 'Bill', 'Plain']);
});

story('marks are made on the server: read, unread, archived and back', async (context) => {
  await publish('marks', 'First', 'Second', 'Third');
  const page = await visit(server, context, 'marks');
  const says = async () => [await badge(page), (await server.counts('marks')).unread];
  await bell(page).click();
  await row(page, 'First').locator('.title').click();
  await sees(says, ['2', 2]);
  await sees(() => heard(page, 'read'), [null]);
  await row(page, 'Second').hover();
  await row(page, 'Second').getByRole('button', { name: 'Mark as read' }).click();
  await sees(says, ['1', 1]);
  await row(page, 'First').getByRole('button', { name: 'Mark as unread' }).click();
  await sees(says, ['2', 2]);
  await row(page, 'Third').getByRole('button', { name: 'Archive' }).click();
  await sees(() => titles(page), ['Second', 'First']);
  await sees(says, ['1', 1]);
  await page.getByRole('button', { name: 'Undo' }).click();
  await sees(() => titles(page), ['Third', 'Second', 'First']);
  await sees(() => unread(page), ['Third', 'First']); // as it was before
  await sees(says, ['2', 2]);
  await row(page, 'Second').getByRole('button', { name: 'Archive' }).click();
  await page.getByRole('button', { name: 'Undo' }).click();
  await sees(() => titles(page), ['Third', 'Second', 'First']);
  await sees(() => unread(page), ['Third', 'First']); // this one had been read
  await sees(says, ['2', 2]);
  await row(page, 'Third').getByRole('button', { name: 'Archive' }).click();
  await sees(says, ['1', 1]);
  await page.getByLabel('Show', { exact: true }).selectOption('Archived');
  await sees(() => titles(page), ['Third']);
  await row(page, 'Third').getByRole('button', { name: 'Move to inbox' }).click();
  await page.getByLabel('Show', { exact: true }).selectOption('Inbox');
  await sees(() => titles(page), ['Third', 'Second', 'First']);
  await sees(() => unread(page), ['First']);
  // Who marks something unread in the archive takes it out of there.
  await row(page, 'Third').getByRole('button', { name: 'Archive' }).click();
  await page.getByLabel('Show', { exact: true }).selectOption('Archived');
  await row(page, 'Third').getByRole('button', { name: 'Mark as unread' }).click();
  await sees(() => titles(page), []);
  assert.equal(await focused(page), 'panel');
  await page.getByLabel('Show', { exact: true }).selectOption('Inbox');
  await sees(() => unread(page), ['Third', 'First']);
  await sees(says, ['2', 2]);
  // What was done is still so when the page is loaded anew.
  const counted = await server.counts('marks');
  await page.reload();
  await sees(() => badge(page), String(counted.unread));
});

story('all of a tab are marked read, but not what nobody has seen yet', async (context) => {
  await server.publish('all', { title: 'Bill', category: 'billing' });
  await publish('all', 'Old', 'New');
  // Without a stream, the page does not hear of what comes later.
  await context.route('**/stream', (route) => route.abort());
  const page = await visit(server, context, 'all');
  await bell(page).click();
  await sees(() => tabs(page), ['All3', 'Billing1']);
  await page.getByRole('tab', { name: 'Billing' }).click();
  await sees(() => titles(page), ['Bill']);
  await page.getByRole('button', { name: 'Mark all read' }).click();
  await sees(() => tabs(page), ['All2', 'Billing']);
  await page.getByRole('tab', { name: 'All' }).click();
  await sees(() => unread(page), ['New', 'Old']);
  await publish('all', 'Unseen');
  await page.getByRole('button', { name: 'Mark all read' }).click();
  await sees(async () => (await server.counts('all')).unread, 1);
  await sees(() => badge(page), '1');
  await page.reload();
  await bell(page).click();
  await sees(() => unread(page), ['Unseen']);
});

story('a message arrives by itself, is announced, and is told to the page', async (context) => {
  const page = await visit(server, context, 'live');
  await follows(page);
  await bell(page).click();
  await page.getByText('You are all caught up').waitFor();
  await publish('live', 'Hello');
  await sees(() => titles(page), ['Hello']);
  await sees(() => badge(page), '1');
  await sees(() => page.locator('.sr[role=status]').textContent(), 'New message: Hello');
  await page.keyboard.press('Escape');
  await publish('live', 'Again');
  await sees(() => badge(page), '2');
  assert.deepEqual(await heard(page, 'message'), ['Hello', 'Again']);
  await bell(page).click();
  await sees(() => titles(page), ['Again', 'Hello']);
  // None, one and two: told when they change, whichever way they come.
  assert.deepEqual(await heard(page, 'counts'), [null, null, null]);
});

story('what looks like the end of a line ends none in a message', async (context) => {
  const odd = 'One\u2028id: \u2603\u2029event: two';
  const first = await visit(server, context, 'lines');
  await follows(first);
  const second = await visit(server, context, 'lines');
  await joined(second);
  await publish('lines', odd, 'Three');
  for (const page of [first, second]) await sees(() => heard(page, 'message'), [odd, 'Three']);
  assert.deepEqual([first.streams, second.streams], [1, 0]);
});

story('a stream goes on whatever stands in it, and in the positions that it tells', async (context) => {
  const asked = [];
  const ids = ['1.2', '\u2603', '1.3'];
  await context.route('**/stream', async (route) => {
    asked.push(route.request().headers()['last-event-id']);
    const id = ids[asked.length - 1];
    if (!id) return; // from here on nothing comes
    const message = { id: `ID${asked.length}`, title: `T\u2028id: x\u2029${asked.length}`, received: 1, unread: true };
    const body = `id: ${id}\nevent: message\ndata: ${JSON.stringify(message)}\n\n`;
    await route.fulfill({ contentType: 'text/event-stream; charset=utf-8', body });
  });
  const page = await visit(server, context, 'positions');
  const all = ids.map((_, n) => `T\u2028id: x\u2029${n + 1}`);
  await sees(() => heard(page, 'message'), all);
  await sees(() => asked, [undefined, '1.2', undefined, '1.3']);
});

story('what is for everyone reaches everyone', async (context) => {
  const attributes = 'inbox="NEWS"';
  const pages = [];
  for (const user of ['eve', 'finn']) pages.push(await visit(server, context, user, { attributes }));
  await server.publish('everyone', { title: 'A holiday' }, 'NEWS');
  for (const page of pages) await sees(() => badge(page), '1');
  await pages[0].bringToFront();
  await bell(pages[0]).click();
  await row(pages[0], 'A holiday').locator('.title').click();
  await sees(() => badge(pages[0]), '');
  assert.equal(await badge(pages[1]), '1');
});

story('tabs of one user share one stream, and agree', async (context) => {
  const streams = [];
  context.on('request', (request) => { if (request.url().endsWith('/stream')) streams.push(request); });
  await publish('twice', 'One', 'Two');
  const first = await visit(server, context, 'twice');
  await sees(() => badge(first), '2');
  await sees(() => streams.length, 1);
  const second = await visit(server, context, 'twice');
  await sees(() => badge(second), '2');
  await bell(second).click();
  await row(second, 'One').locator('.title').click();
  for (const page of [first, second]) await sees(() => badge(page), '1');
  await publish('twice', 'Three');
  for (const page of [first, second]) await sees(() => badge(page), '2');
  await sees(() => titles(second), ['Three', 'Two', 'One']);
  assert.equal(streams.length, 1);
  // The other one takes over when the tab with the stream is closed, and what comes meanwhile is not lost.
  await first.close();
  await publish('twice', 'Four');
  await sees(() => titles(second), ['Four', 'Three', 'Two', 'One']);
  await sees(() => streams.length, 2);
  await sees(() => heard(second, 'message'), ['Three', 'Four']);
});

story('a tab that is just opening hears of what is told meanwhile', async (context) => {
  await publish('opening', 'One');
  const first = await visit(server, context, 'opening');
  await sees(() => badge(first), '1');
  // Its first answer is on the way when a message comes, and the first tab hears of that before there is a second.
  let isLate = false;
  await context.route('**/counts', async (route) => {
    const answer = await route.fetch();
    if (route.request().frame().page() !== first && !isLate) {
      isLate = true;
      await publish('opening', 'Two');
      await sees(() => badge(first), '2');
    }
    await route.fulfill({ response: answer });
  });
  const second = await visit(server, context, 'opening');
  await sees(() => badge(second), '2');
  assert.ok(isLate);
});

story('two users in one browser do not hear of each other', async (context) => {
  const ours = await visit(server, context, 'ours');
  const theirs = await visit(server, context, 'theirs');
  for (const page of [ours, theirs]) await follows(page);
  await publish('ours', 'Secret');
  await sees(() => badge(ours), '1');
  await publish('theirs', 'Public');
  await sees(() => heard(theirs, 'message'), ['Public']);
  assert.deepEqual(await heard(ours, 'message'), ['Secret']);
});

story('a restart of the server loses nothing', async (context) => {
  await publish('restart', 'Before');
  const page = await visit(server, context, 'restart');
  await follows(page);
  await bell(page).click();
  await publish('restart', 'Live');
  await sees(() => titles(page), ['Live', 'Before']);
  await server.kill();
  await page.getByText('Connection lost').waitFor();
  await server.serve();
  await publish('restart', 'Meanwhile one', 'Meanwhile two');
  await sees(() => titles(page), ['Meanwhile two', 'Meanwhile one', 'Live', 'Before']);
  await sees(() => badge(page), '4');
  await page.getByText('Connection lost').waitFor({ state: 'hidden' });
  await sees(() => heard(page, 'message'), ['Live', 'Meanwhile one', 'Meanwhile two']);
});

story('a page without a network says so, and goes on when it is back', async (context) => {
  await publish('offline', 'One');
  const page = await visit(server, context, 'offline');
  await bell(page).click();
  await sees(() => titles(page), ['One']);
  await context.setOffline(true);
  await page.getByText('You are offline').waitFor();
  await row(page, 'One').locator('.title').click();
  await page.locator('.toast').getByText('That did not work').waitFor();
  await sees(() => unread(page), ['One']); // taken back
  await context.setOffline(false);
  await page.getByText('You are offline').waitFor({ state: 'hidden' });
  await publish('offline', 'Two');
  await sees(() => titles(page), ['Two', 'One']);
});

story('a page that nobody has looked at for long lets go of its stream, and catches up', async (context) => {
  const [begun, ended] = [[], []];
  const ofStream = (list) => (request) => { if (request.url().endsWith('/stream')) list.push(request); };
  context.on('request', ofStream(begun));
  context.on('requestfailed', ofStream(ended));
  await context.clock.install();
  const page = await visit(server, context, 'away');
  const turn = (hidden) => page.evaluate((now) => {
    Object.defineProperty(document, 'hidden', { value: now, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  await sees(() => heard(page, 'counts'), [null]);
  await follows(page);
  await turn(true);
  await publish('away', 'Still listening');
  await sees(() => badge(page), '1');
  await context.clock.fastForward('06:00');
  await sees(() => ended.length, 1);
  await publish('away', 'Unheard');
  await turn(false);
  await sees(() => badge(page), '2');
  await sees(() => heard(page, 'message'), ['Still listening', 'Unheard']);
  assert.equal(begun.length, 2);
});

story('what has expired is gone, from the badge too', async (context) => {
  await publish('expiry', 'Stays');
  await server.publish('expiry', { title: 'Soon over', expires_in: '4s' });
  await server.publish('expiry', { title: 'Later over', expires_in: '30m' });
  const page = await visit(server, context, 'expiry');
  await bell(page).click();
  await sees(() => titles(page), ['Later over', 'Soon over', 'Stays']);
  await sees(() => titles(page), ['Later over', 'Stays']);
  await sees(() => badge(page), '2');
});

story('what expires while a page is offline is gone there too', async (context) => {
  await publish('unplugged', 'Stays');
  await server.publish('unplugged', { title: 'Over', expires_in: '30m' });
  await context.clock.install();
  const page = await visit(server, context, 'unplugged');
  await bell(page).click();
  await sees(() => titles(page), ['Over', 'Stays']);
  await context.setOffline(true);
  await context.clock.fastForward('31:00');
  await sees(() => titles(page), ['Stays']);
  // Back on the network it turns out that the clock was wrong: the server says what there is.
  await context.setOffline(false);
  await publish('unplugged', 'New');
  await sees(() => titles(page), ['New', 'Over', 'Stays']);
});

story('an answer that never comes holds nothing up', async (context) => {
  await publish('stuck', 'First', 'Second');
  await context.addInitScript(() => {
    const { timeout } = AbortSignal;
    AbortSignal.timeout = (wait) => timeout.call(AbortSignal, wait / 10);
  });
  const page = await visit(server, context, 'stuck');
  await bell(page).click();
  await sees(() => unread(page), ['Second', 'First']);
  let stuck = 0;
  await page.route('**/messages/read', (route) => { if ((stuck += 1) > 1) route.continue(); });
  await row(page, 'First').locator('.title').click();
  await row(page, 'Second').locator('.title').click();
  await sees(() => unread(page), ['First']); // given up, and taken back
  await sees(async () => (await server.counts('stuck')).unread, 1);
});

story('a page that is open for weeks does not hold all that came', async (context) => {
  const page = await visit(server, context, 'weeks');
  await follows(page);
  await bell(page).click();
  await page.getByText('You are all caught up').waitFor();
  await page.keyboard.press('Escape');
  for (let came = 0; came < 320; came += 40) {
    await publish('weeks', ...Array.from({ length: 40 }, (_, n) => `Message ${came + n}`));
    await sees(async () => (await heard(page, 'message')).length, came + 40);
  }
  await bell(page).click();
  await sees(async () => (await titles(page)).length, 30);
  // Each was told once, and is still there for who goes on.
  assert.equal(new Set(await heard(page, 'message')).size, 320);
});

story('an error can be tried again', async (context) => {
  await publish('retry', 'One');
  // A stream that fails would have the list loaded again by itself, as coming near and opening it do. So nothing comes of
  // the stream, and nobody gets the list who has not pressed the button.
  await context.route('**/stream', () => {});
  await context.addInitScript(() => {
    const { fetch } = window;
    let pressed = false;
    addEventListener('click', (event) => { pressed ||= event.composedPath()[0].textContent === 'Try again'; }, true);
    window.fetch = async (to, init) =>
      (pressed || !to.includes('/messages?') ? fetch(to, init) : new Response('{}', { status: 500 }));
  });
  const page = await visit(server, context, 'retry');
  await bell(page).click();
  await page.getByText('Messages could not be loaded').waitFor();
  assert.ok((await heard(page, 'error')).length > 0);
  await page.getByRole('button', { name: 'Try again' }).click();
  await sees(() => titles(page), ['One']);
});

story('a token that is too old is renewed, by the refresh token or by the page', async (context) => {
  await publish('old', 'One');
  const good = await server.tokens('old');
  const refreshed = await visit(server, context, 'old', { tokens: { ...good, token: 'tdu_old' } });
  await sees(() => badge(refreshed), '1');
  assert.deepEqual(await heard(refreshed, 'token'), [null]);

  const { token } = await server.tokens('old');
  const asked = await visit(server, context, 'old', { tokens: { token: 'tdu_old', refresh_token: '' } });
  await sees(async () => (await heard(asked, 'error')).length > 0, true);
  await bell(asked).click();
  await asked.getByText('Your session has ended').waitFor();
  await asked.keyboard.press('Escape');
  await asked.evaluate((given) => {
    const inbox = document.querySelector('tidings-inbox');
    inbox.getToken = async () => given;
    inbox.removeAttribute('token');
  }, token);
  await sees(() => badge(asked), '1');
});

story('an app of another origin has its inbox here, if the settings allow it', async (context) => {
  const [allowed, refused] = [await elsewhere(), await elsewhere()];
  try {
    await server.ask('PUT', '/v1/inbox-settings', { allowed_origins: [allowed.origin] });
    const attributes = `server="${server.base}"`;
    const page = await visit(server, context, 'cross', { attributes, app: allowed });
    await publish('cross', 'One');
    await sees(() => badge(page), '1');
    await bell(page).click();
    await row(page, 'One').locator('.title').click();
    await sees(async () => (await server.counts('cross')).unread, 0);
    const other = await visit(server, context, 'cross', { attributes, app: refused });
    await bell(other).click();
    await other.getByText('Messages could not be loaded').waitFor();
  } finally {
    for (const app of [allowed, refused]) {
      app.closeAllConnections();
      app.close();
    }
  }
});

story('everything can be done by keyboard', async (context) => {
  await server.publish('keys', { title: 'Bill', category: 'billing' });
  await publish('keys', 'Plain');
  const page = await visit(server, context, 'keys');
  const press = async (...all) => { for (const key of all) await page.keyboard.press(key); };
  await sees(() => badge(page), '2');
  await press('Tab', 'Tab');
  assert.equal(await focused(page), 'bell');
  assert.equal(await bell(page).getAttribute('aria-expanded'), 'false');
  await press('Enter');
  await sees(() => focused(page), 'panel');
  assert.equal(await bell(page).getAttribute('aria-expanded'), 'true');
  await page.getByRole('dialog', { name: 'Notifications' }).waitFor();
  await sees(() => titles(page), ['Plain', 'Bill']);
  await press('Tab', 'Tab', 'Tab');
  assert.equal(await focused(page), 'tab');
  await press('ArrowRight');
  await sees(() => titles(page), ['Bill']);
  assert.equal(await page.getByRole('tab', { selected: true }).textContent(), 'Billing1');
  await press('ArrowRight');
  await sees(() => titles(page), ['Plain', 'Bill']);
  await press('Tab');
  assert.equal(await focused(page), 'title');
  const ring = await page.locator('.title').first().evaluate((one) => getComputedStyle(one, '::after').outlineStyle);
  assert.equal(ring, 'solid');
  await press('ArrowDown', 'Enter');
  await sees(() => unread(page), ['Plain']);
  assert.equal(await focused(page), 'title'); // still there, though the row was made anew
  await press('ArrowUp', 'Tab', 'Space'); // "Mark as read" of the first
  await sees(() => badge(page), '');
  assert.equal(await focused(page), 'icon');
  await press('Tab', 'Enter'); // "Archive"
  await sees(() => titles(page), ['Bill']);
  assert.equal(await focused(page), 'title');
  await press('Escape');
  await sees(() => focused(page), 'bell');
  assert.equal(await page.getByRole('dialog').count(), 0);
});

story('"Undo" waits for who comes by keyboard, and for nobody else', async (context) => {
  await publish('undo', 'One', 'Two', 'Three');
  await context.clock.install();
  const page = await visit(server, context, 'undo');
  const toast = page.locator('.toast');
  const press = async (...all) => { for (const key of all) await page.keyboard.press(key); };
  await bell(page).focus();
  await press('Enter');
  await sees(() => titles(page), ['Three', 'Two', 'One']);
  const made = page.waitForResponse('**/messages/archive');
  await press('Tab', 'Tab', 'Tab', 'ArrowDown', 'Tab', 'Tab', 'Enter'); // "Archive" of the second
  await (await made).finished(); // the clock that is set forward is also that of requests
  await sees(() => titles(page), ['Three', 'One']);
  for (let n = 0; n < 3; n += 1) await context.clock.fastForward('00:08');
  assert.equal(await toast.isVisible(), true);
  await press('Home', 'Shift+Tab');
  assert.equal(await page.locator('.toast button').evaluate((one) => one.matches(':focus')), true);
  await context.clock.fastForward('00:08');
  await press('Enter');
  await sees(() => titles(page), ['Three', 'Two', 'One']);
  await sees(() => toast.isVisible(), false);
  // By pointer.
  await row(page, 'Two').getByRole('button', { name: 'Archive' }).click();
  await toast.hover();
  await context.clock.fastForward('00:08');
  assert.equal(await toast.isVisible(), true);
  await page.locator('.heading').hover();
  await context.clock.fastForward('00:08');
  await sees(() => toast.isVisible(), false);
  // It stands below the list all the same.
  await row(page, 'One').getByRole('button', { name: 'Archive' }).click();
  const [list, bar] = [await page.locator('.scroll').boundingBox(), await toast.boundingBox()];
  assert.ok(bar.y >= list.y + list.height, `${bar.y} is not below ${list.y + list.height}`);
});

story('a click leads where the message says, unless the page takes over', async (context) => {
  await server.publish('click', { title: 'Go', cta_uri: '/somewhere?a=1' });
  const page = await visit(server, context, 'click');
  await page.evaluate(() => addEventListener('tidings-inbox:click', (event) => {
    event.preventDefault();
    window.followed = event.detail.uri;
  }, { once: true }));
  await bell(page).click();
  await row(page, 'Go').locator('.title').click();
  assert.equal(await page.evaluate(() => window.followed), `${server.base}/somewhere?a=1`);
  assert.equal(page.url(), `${server.base}/app`);
  await sees(async () => (await server.counts('click')).unread, 0);
  await publish('click', 'Other');
  await server.publish('click', { title: 'Leave', cta_uri: '/left' });
  await page.route('**/left', (route) => route.fulfill({ body: 'left' }));
  await bell(page).click();
  await row(page, 'Leave').locator('.title').click();
  await page.waitForURL('**/left');
  // The mark is made although the page is gone.
  await sees(async () => (await server.counts('click')).unread, 1);
});

const hostile = '<img src=x onerror="alert(1)"><script>alert(2)</script>';

story('what a stranger writes stays text', async (context) => {
  const bodies = [
    hostile, { text: hostile }, { [hostile]: hostile },
    { blocks: [{ type: 'heading', text: hostile }, { text: 'x', url: 'javascript:alert(3)' }, null, 7] },
    '[a](javascript:alert(4)) [b](java\nscript:alert(5)) [c](data:text/html,x) [d](mailto:a@example.org)',
    '**<b>** `<i>` https://example.org/"onmouseover="alert(6) *x*', '['.repeat(5000) + '*'.repeat(5000),
  ];
  const to = { users: ['xss'], label: hostile };
  for (const [n, body] of bodies.entries()) await server.publish('xss', { to, title: `${n} ${hostile}`, body });
  const page = await visit(server, context, 'xss');
  await bell(page).click();
  await sees(async () => (await titles(page)).length, bodies.length);
  assert.equal((await titles(page)).at(-1), `0 ${hostile}`);
  const inside = await page.locator('tidings-inbox').evaluate(({ shadowRoot: root }) => ({
    strange: root.querySelectorAll('img, script, iframe, style, b, i').length,
    links: [...root.querySelectorAll('.body a')].map((one) => one.href),
    handlers: [...root.querySelectorAll('*')].flatMap((one) => one.getAttributeNames()).filter((one) => /^on/.test(one)),
  }));
  assert.deepEqual(inside, { strange: 0, links: ['https://example.org/', 'mailto:a@example.org'], handlers: [] });
  for (const title of await page.locator('.item .title').all()) await title.click();
  await sees(() => badge(page), '');
});

story('a reader is told whom a message went to, if its sender says so', async (context) => {
  await publish('label', 'Without');
  await server.publish('label', { to: { users: ['label'], label: 'All customers' }, title: 'With', category: 'news' });
  const page = await visit(server, context, 'label');
  await bell(page).click();
  await sees(() => titles(page), ['With', 'Without']);
  assert.deepEqual(await page.locator('.label').allTextContents(), ['All customers']);
  assert.equal(await row(page, 'With').locator('.below .label').isVisible(), true);
});

story('a message leads only to addresses that a page may go to', async (context) => {
  // Whatever the server lets through: the widget does not rely on it.
  const uris = ['javascript:alert(1)', 'JaVaScRiPt:alert(2)', 'java\tscript:alert(3)',
    'data:text/html,<script>alert(4)</script>', 'vbscript:x', 'blob:x', 'myapp://orders/7', 'other://x', '/relative',
    'https://example.org/x', 'http://[broken'];
  const messages = uris.map((uri, n) => ({ id: `ID${n + 10}`, title: `T${n}`, cta_uri: uri, received: 1, unread: true }));
  await context.route('**/messages?*', (route) => route.fulfill({ json: { messages, next_cursor: null } }));
  const page = await visit(server, context, 'uris', { attributes: 'app-schemes="myapp javascript"' });
  await bell(page).click();
  await sees(async () => (await titles(page)).length, uris.length);
  const links = await page.locator('.item a.title').evaluateAll((all) => all.map((one) => one.href).sort());
  assert.deepEqual(links, [`${server.base}/relative`, 'https://example.org/x', 'myapp://orders/7'].sort());
});

story('the strictest policy of a page is kept, and nothing is made of HTML', async (context) => {
  await server.publish('policy', { title: 'One', body: '**Bold** and <b>not</b>' });
  const policy = `default-src 'none'; script-src 'nonce-page' ${server.base}; connect-src ${server.base};
    require-trusted-types-for 'script'`.replace(/\s+/g, ' ');
  const page = await visit(server, context, 'policy', { policy });
  await bell(page).click();
  await sees(() => titles(page), ['One']);
  assert.equal(await page.locator('.panel').evaluate((one) => getComputedStyle(one).display), 'flex');
  await row(page, 'One').locator('.title').click();
  await sees(() => badge(page), '');
});

story('a page may show bodies in its own way, and in its own words', async (context) => {
  await server.publish('own', { title: 'Chart', body: { points: [1, 2, 3] } });
  await publish('own', 'Text');
  const page = await visit(server, context, 'own');
  await page.evaluate(() => {
    const inbox = document.querySelector('tidings-inbox');
    inbox.messages = { title: 'Tidings', markAll: 'Done with these' };
    inbox.renderBody = ({ body }, element) => {
      if (!body.points) return false;
      element.textContent = `${body.points.length} points`;
      return true;
    };
  });
  await bell(page).click();
  await page.getByRole('dialog', { name: 'Tidings' }).waitFor();
  await page.getByText('Done with these').waitFor();
  await page.getByText('3 points').waitFor();
  await page.getByText('Something new.').waitFor();
});

story('it may be a part of the page instead of a bell', async (context) => {
  await publish('page', 'One');
  const page = await visit(server, context, 'page', { attributes: 'mode="page"' });
  await sees(() => titles(page), ['One']);
  assert.equal(await bell(page).count(), 0);
  await publish('page', 'Two');
  await sees(() => titles(page), ['Two', 'One']);
});

// The contrast of two colours as WCAG computes it, of every text on display.
const contrasts = (page) => page.locator('tidings-inbox').evaluate(({ shadowRoot: root }) => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const channels = (colour, below) => {
    canvas.fillStyle = below;
    canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = (rgb) => {
    const [r, g, b] = rgb.map((value) => linear(value / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    for (let one = node; one; one = one.parentElement) {
      const { backgroundColor } = getComputedStyle(one);
      if (backgroundColor !== 'rgba(0, 0, 0, 0)') return backgroundColor;
    }
    return 'white';
  };
  const wanted = ['.heading', '.quiet', '.tab', '.tab span', '.title', '.time', '.body', '.body a', '.body code', '.chip',
    '.badge'];
  return Object.fromEntries(wanted.map((name) => {
    const node = root.querySelector(name);
    const back = ground(node);
    const pair = [light(channels(getComputedStyle(node).color, back)), light(channels(back, 'white'))];
    return [name, (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05)];
  }));
});

for (const [scheme, other, ground] of [['light', 'dark', 'rgb(255, 255, 255)'], ['dark', 'light', 'rgb(25, 27, 32)']]) {
  story(`in the ${scheme}, everything can be read`, async (context) => {
    const body = 'Text `code` [link](https://example.org)';
    await server.publish(scheme, { title: 'Title', body, category: 'billing' });
    const page = await visit(server, context, scheme);
    const panel = page.locator('.panel');
    await bell(page).click();
    await sees(() => titles(page), ['Title']);
    await panel.evaluate((one) => Promise.all(one.getAnimations().map((animation) => animation.finished)));
    assert.equal(await panel.evaluate((one) => getComputedStyle(one).backgroundColor), ground);
    const low = Object.entries(await contrasts(page)).filter(([, contrast]) => contrast < 4.5);
    assert.deepEqual(low, []);
    // The page may decide otherwise, and give colours of its own.
    await page.locator('tidings-inbox').evaluate((one, theme) => one.setAttribute('theme', theme), other);
    assert.notEqual(await panel.evaluate((one) => getComputedStyle(one).backgroundColor), ground);
    await page.addStyleTag({ content: 'tidings-inbox { --tidings-bg: rgb(1, 2, 3) }' });
    assert.equal(await panel.evaluate((one) => getComputedStyle(one).backgroundColor), 'rgb(1, 2, 3)');
  }, { colorScheme: scheme });
}

story('on a phone it is a sheet over the whole width', async (context) => {
  await publish('phone', 'One');
  const page = await visit(server, context, 'phone');
  await bell(page).tap();
  await sees(() => titles(page), ['One']);
  await sees(async () => {
    const { x, width, y, height } = await page.locator('.panel').boundingBox();
    return [x, width, Math.round(y + height)];
  }, [0, 390, 760]);
  await row(page, 'One').getByRole('button', { name: 'Mark as read' }).tap(); // there without hovering
  await sees(() => badge(page), '');
  await page.getByRole('button', { name: 'Close' }).tap();
  await sees(() => page.getByRole('dialog').count(), 0);
}, { viewport: { width: 390, height: 760 }, hasTouch: true, isMobile: true });

story('in a right-to-left page it is mirrored, and stays inside', async (context) => {
  await publish('rtl', 'One');
  const page = await visit(server, context, 'rtl', { html: 'dir="rtl" lang="ar"' });
  await bell(page).click();
  await sees(() => titles(page), ['One']);
  const at = await page.locator('.panel').boundingBox();
  assert.ok(at.x >= 0 && at.x < 20, `at ${at.x}`);
  // The dot stands before the title.
  await sees(() => page.locator('.item').evaluate((one) => {
    const right = (node) => node.getBoundingClientRect().right;
    return parseFloat(getComputedStyle(one, '::before').right) < right(one) - right(one.querySelector('.title'));
  }), true);
});

story('who wants no motion sees none', async (context) => {
  const page = await visit(server, context, 'still');
  await bell(page).click();
  assert.equal(await page.locator('.panel').evaluate((one) => one.getAnimations().length), 0);
}, { reducedMotion: 'reduce' });

story('where colours are forced, what is unread and which tab is chosen can be told', async (context) => {
  await server.publish('forced', { title: 'Title', category: 'billing' });
  const page = await visit(server, context, 'forced');
  await bell(page).click();
  await sees(() => titles(page), ['Title']);
  const seen = await page.locator('tidings-inbox').evaluate(({ shadowRoot: root }) => {
    const dot = getComputedStyle(root.querySelector('.unread'), '::before');
    const tab = (chosen) => getComputedStyle(root.querySelector(`.tab[aria-selected=${chosen}]`)).textDecorationLine;
    const ground = getComputedStyle(root.querySelector('.panel')).backgroundColor;
    return [dot.borderTopWidth, dot.borderTopColor !== ground, tab(true), tab(false)];
  });
  assert.deepEqual(seen, ['4px', true, 'underline', 'none']);
}, { forcedColors: 'active' });
