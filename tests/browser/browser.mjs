// Pages with an inbox in a real Chromium, for the tests beside this file.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const { chromium } = createRequire(`${process.env.BROWSER_TEST_MODULES}/`)('playwright-core');

export const launch = () => chromium.launch({
  executablePath: process.env.BROWSER_TEST_CHROMIUM ?? '/usr/bin/chromium',
  // Chromium's own sandbox does not run as root. What it shows here is only ours.
  args: ['--no-sandbox'],
});

// Another server on this machine, which only has the page of an app: that is another origin for a browser.
export async function elsewhere() {
  const app = createServer((_, answer) => answer.setHeader('content-type', 'text/html').end(app.html));
  await new Promise((done) => { app.listen(0, '127.0.0.1', done); });
  app.origin = `http://127.0.0.1:${app.address().port}`;
  return app;
}

// A page of an app, which came from the same server as the inbox unless an `app` is given. It writes down every event of
// the element, and everything that went wrong in it.
export async function visit(server, context, user, given = {}) {
  const { attributes = '', html = '', policy, app, tokens = await server.tokens(user) } = given;
  const page = await context.newPage();
  page.wrong = [];
  page.streams = 0;
  page.on('response', (answer) => { if (answer.ok() && answer.url().endsWith('/stream')) page.streams += 1; });
  page.on('pageerror', (error) => page.wrong.push(String(error)));
  page.on('dialog', (dialog) => { page.wrong.push(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
  const body = `<!doctype html><html ${html}><meta name="viewport" content="width=device-width">
    <body style="margin: 0"><header style="display: flex; justify-content: space-between; padding: 8px">
    <a href="#home">An app</a>
    <tidings-inbox token="${tokens.token}" refresh-token="${tokens.refresh_token}" ${attributes}></tidings-inbox></header>
    <script nonce="page">
      window.heard = [];
      for (const name of ['message', 'read', 'counts', 'open', 'click', 'token', 'error']) {
        addEventListener('tidings-inbox:' + name, (event) => heard.push([name, event.detail?.message?.title ?? null]));
      }
    </script><script type="module" src="${server.base}/inbox/widget.js"></script>`;
  if (app) app.html = body;
  const headers = policy ? { 'content-security-policy': policy } : {};
  await page.route(`${server.base}/app`, (route) => route.fulfill({ contentType: 'text/html', headers, body }));
  await page.goto(`${app?.origin ?? server.base}/app`);
  return page;
}

export const bell = (page) => page.locator('tidings-inbox .bell');
const texts = (found) => found.evaluateAll((all) => all.map((one) => one.lastChild.data));
export const titles = (page) => texts(page.locator('.item .title'));
export const unread = (page) => texts(page.locator('.item.unread .title'));
export const badge = (page) => page.locator('.badge').evaluate((one) => (one.hidden ? '' : one.textContent));
export const tabs = (page) => page.locator('.tab').evaluateAll((all) => all.map((one) => one.textContent));
export const row = (page, title) => page.locator('.item', { hasText: title });
export const heard = (page, name) => page.evaluate((wanted) =>
  window.heard.filter(([one]) => one === wanted).map(([, title]) => title), name);
// The element that has the focus, inside the widget or outside.
export const focused = (page) => page.evaluate(() => {
  const { activeElement: outer } = document;
  const inner = outer.shadowRoot?.activeElement ?? outer;
  return inner.className || inner.localName;
});

// From now on this page is told of every message. Only the first tab of a user has a stream.
export const follows = (page) => sees(() => page.streams > 0, true);
// From now on this page, another tab of the same user, hears what the first one is told.
export const joined = (page) => sees(async () => (await heard(page, 'counts')).length > 0, true);

// Looks again until it is as wanted, for half a minute: a machine may be busy, and a page rests between its tries.
export async function sees(look, wanted) {
  const until = Date.now() + 30_000;
  for (;;) {
    const seen = await look();
    try {
      assert.deepEqual(seen, wanted);
      return;
    } catch (error) {
      if (Date.now() > until) throw error;
    }
    await new Promise((again) => { setTimeout(again, 30); });
  }
}
