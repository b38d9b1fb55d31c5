// A server for the tests in a browser: the real binary, with a folder and a port of its own.
//
// Here: starting, stopping and asking it. Not here: what a browser does with it (`inbox.test.mjs`).

import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const binary = process.env.BROWSER_TEST_BINARY;

// The test runner's own variables would be unknown settings.
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TIDINGS_')));

export class Server {
  static async make() {
    const server = new Server();
    server.folder = mkdtempSync(join(tmpdir(), 'tidings-browser.'));
    server.port = await freePort();
    server.base = `http://127.0.0.1:${server.port}`;
    return server;
  }

  // The demo, which has a page with an inbox.
  static async demo() {
    const server = await Server.make();
    await server.serve('demo', '--folder', 'demo');
    return server;
  }

  static async start() {
    const server = await Server.make();
    server.cli('bootstrap');
    server.cli('clients', 'create', 'shop');
    const rights = ['inbox:admin', 'inbox:user'].flatMap((scope) => ['--scope', scope]);
    const limits = ['--requests-per-second', '100000', '--burst', '100000'];
    const made = server.cli('keys', 'create', '--client', 'shop', '--name', 'browser', ...rights, ...limits);
    server.key = JSON.parse(made).key;
    await server.serve();
    return server;
  }

  cli(...words) {
    return execFileSync(binary, words, { cwd: this.folder, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  }

  // On the same port each time: that is what a browser meets after a restart.
  async serve(...words) {
    this.said = '';
    const listen = [...(words.length ? words : ['serve']), '--listen', `127.0.0.1:${this.port}`];
    this.child = spawn(binary, listen, { cwd: this.folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const listening = new Promise((done, failed) => {
      const hear = (text) => {
        this.said += text;
        if (this.said.includes('listening on')) done();
      };
      this.child.stdout.on('data', hear);
      this.child.stderr.on('data', hear);
      this.child.on('exit', (code) => failed(new Error(`the server ended with ${code}:\n${this.said}`)));
    });
    await listening;
  }

  // Like a machine that loses its power.
  async kill() {
    const ended = new Promise((done) => { this.child.once('exit', done); });
    this.child.kill('SIGKILL');
    await ended;
  }

  async end() {
    await this.kill();
    rmSync(this.folder, { recursive: true });
  }

  async ask(method, path, body) {
    const answer = await fetch(this.base + path, {
      method, body: body && JSON.stringify(body),
      headers: { authorization: `Bearer ${this.key}`, 'content-type': 'application/json' },
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text && JSON.parse(text);
  }

  publish(to, message, inbox = 'DEFAULT') {
    const audience = to === 'everyone' ? { everyone: true } : { users: [to] };
    return this.ask('POST', `/v1/inboxes/${inbox}/messages`, { to: audience, body: 'Something new.', ...message });
  }

  // As the server counts, whatever a page shows.
  async counts(user, inbox = 'DEFAULT') {
    const { token } = await this.tokens(user);
    const headers = { authorization: `Bearer ${token}` };
    return (await fetch(`${this.base}/inbox/v1/${inbox}/counts`, { headers })).json();
  }

  tokens(user, expiresIn = 3600) {
    return this.ask('POST', '/v1/inbox-tokens', { user_id: user, expires_in: expiresIn });
  }
}

function freePort() {
  return new Promise((done) => {
    const socket = createServer().listen(0, '127.0.0.1', () => {
      const { port } = socket.address();
      socket.close(() => done(port));
    });
  });
}
