// The page `/inbox/demo` of `tidings demo`: what somebody sees first of an inbox.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { badge, bell, launch, sees, titles } from './browser.mjs';
import { Server } from './server.mjs';

let server;
let browser;

before(async () => {
  server = await Server.demo();
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.end();
});

async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 800 }, ...options });
  context.setDefaultTimeout(30_000);
  const page = await context.newPage();
  page.wrong = [];
  page.on('pageerror', (error) => page.wrong.push(String(error)));
  page.on('requestfailed', (request) => page.wrong.push(`${request.method()} ${request.url()}`));
  await page.goto(`${server.base}/inbox/demo`);
  await sees(async () => Number(await badge(page)) > 0, true);
  return page;
}

const ground = (page, what) => page.locator(what).evaluate((one) => getComputedStyle(one).backgroundColor);

test('what the form sends arrives at the bell', { timeout: 120_000 }, async () => {
  const page = await open();
  const before = Number(await badge(page));
  await page.getByLabel('Title').fill('It\'s here');
  assert.ok((await page.locator('#curl').textContent()).includes('It\'\\\'\'s here'), 'as a shell reads it');
  await page.getByRole('button', { name: 'Send to me' }).click();
  await sees(() => page.locator('#said').textContent(), 'Sent. Look at the bell.');
  await sees(() => badge(page), String(before + 1));
  await page.getByLabel('Title').fill('For all');
  await page.getByRole('button', { name: 'Send to everyone' }).click();
  await sees(() => badge(page), String(before + 2));
  await bell(page).click();
  await sees(async () => (await titles(page)).slice(0, 2), ['For all', 'It\'s here']);
  // What the server refuses, the page says.
  await page.keyboard.press('Escape');
  await page.getByLabel('Leads to').fill('javascript:alert(1)');
  await page.getByRole('button', { name: 'Send to me' }).click();
  await sees(async () => /^(|Sent\..*)$/.test(await page.locator('#said').textContent()), false);
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('its theme and its language can be chosen', { timeout: 120_000 }, async () => {
  const page = await open({ colorScheme: 'light' });
  await bell(page).click();
  const light = [await ground(page, 'body'), await ground(page, '.panel')];
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Dark' }).click();
  assert.equal(await page.getByRole('button', { name: 'Dark' }).getAttribute('aria-pressed'), 'true');
  assert.equal(await page.getByRole('button', { name: 'System' }).getAttribute('aria-pressed'), 'false');
  await bell(page).click();
  const dark = [await ground(page, 'body'), await ground(page, '.panel')];
  dark.forEach((colour, n) => assert.notEqual(colour, light[n]));
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'System' }).click();
  assert.deepEqual([await ground(page, 'body'), await page.locator('tidings-inbox').getAttribute('theme')], [light[0], null]);
  await page.getByRole('button', { name: 'Deutsch' }).click();
  await bell(page).click();
  await page.getByRole('dialog', { name: 'Mitteilungen' }).waitFor();
  assert.deepEqual(page.wrong, []);
  await page.context().close();
});

test('on a phone nothing stands out of the page', { timeout: 120_000 }, async () => {
  const page = await open({ viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
  const wide = () => page.evaluate(() => document.documentElement.scrollWidth);
  assert.equal(await wide(), 360);
  await bell(page).tap();
  await sees(async () => (await titles(page)).length > 0, true);
  assert.equal(await wide(), 360);
  await page.context().close();
});
