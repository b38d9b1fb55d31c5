// A session with one server, inbox and user: tokens, requests, the live stream, and the other tabs.

const NAP = 5 * 60e3; // a page hidden for so long gives its connection back
const AWAY = 30e3; // a page hidden for so long looks at everything again
const SILENCE = 45e3; // three heartbeats missed: the connection is dead
const patience = () => AbortSignal.timeout(20e3);

const failure = async (answer) => {
  const problem = await answer.json().catch(() => null);
  const error = new Error(problem?.detail ?? problem?.title ?? `the server answered ${answer.status}`);
  return Object.assign(error, { status: answer.status, wait: answer.headers.get('retry-after') * 1000 });
};

class Session {
  #host; #root; #base; #token; #refreshToken; #renewing; #puts; #position = ''; #channel; #cut; #wake; #nap; #hidden = 0;
  #stop = new AbortController(); #asleep = false;
  ahead = 0; // by how much this clock is ahead of the server's, give or take a second

  constructor(host) {
    this.#host = host;
    this.#root = `${(host.getAttribute('server') ?? '').replace(/\/+$/, '')}/inbox/v1`;
    this.#base = `${this.#root}/${encodeURIComponent(host.getAttribute('inbox') || 'DEFAULT')}`;
    this.#token = host.getAttribute('token');
    this.#refreshToken = host.getAttribute('refresh-token');
    const { signal } = this.#stop;
    const network = () => { this.#wake?.(); host.receive({ type: 'network' }); };
    addEventListener('online', network, { signal });
    addEventListener('offline', network, { signal });
    document.addEventListener('visibilitychange', () => this.#visibility(), { signal });
    this.#run();
  }

  get closed() { return this.#stop.signal.aborted; }

  close() {
    this.#stop.abort();
    this.#cut?.abort();
    this.#wake?.();
    this.#channel?.close();
    clearTimeout(this.#nap);
  }

  get(path) { return this.#json(path, { signal: patience() }); }

  // In order, for the counts' sake; and outliving the page, which the click that marks a message read may leave.
  put(path, ask) {
    const body = JSON.stringify(ask);
    const send = () => this.#json(path, { method: 'PUT', body, keepalive: true, signal: patience() });
    return this.#puts = this.#puts?.then(send, send) ?? send();
  }

  tell(event) { if (!this.closed) this.#channel?.postMessage(event); }

  #say(event) {
    if (!this.closed) this.#host.receive(event);
    this.tell(event);
  }

  async #json(path, init) { return (await this.#open(path, init)).json(); }

  async #open(path, init) {
    let token = this.#token ?? await this.#renew();
    for (let again = false; ; again = true) {
      const headers = { ...init.headers, authorization: `Bearer ${token}` };
      if (init.body) headers['content-type'] = 'application/json';
      // `no-cache`: the browser asks with the ETag that it has.
      const answer = await fetch(this.#base + path, { ...init, headers, credentials: 'omit', cache: 'no-cache' });
      this.ahead = Date.now() - Date.parse(answer.headers.get('date')) || 0;
      if (answer.ok) return answer;
      if (answer.status !== 401 || again) throw await failure(answer);
      token = this.#token !== token ? this.#token : await this.#renew();
    }
  }

  // However many requests find the token too old, it is renewed once.
  #renew() { return this.#renewing ??= this.#renewed().finally(() => { this.#renewing = null; }); }

  async #renewed() {
    if (this.#refreshToken) {
      const answer = await fetch(`${this.#root}/tokens/refresh`, {
        method: 'POST', body: JSON.stringify({ refresh_token: this.#refreshToken }), credentials: 'omit',
        headers: { 'content-type': 'application/json' }, signal: patience(),
      });
      if (answer.ok) {
        const { token, refresh_token: refreshToken } = await answer.json();
        this.#refreshToken = refreshToken ?? this.#refreshToken;
        this.#host.emit('token', { token, refreshToken: this.#refreshToken });
        return this.#token = token;
      }
      if (answer.status === 429 || answer.status >= 500) throw await failure(answer);
      this.#refreshToken = null;
    }
    const token = await this.#host.getToken?.();
    if (!token) throw Object.assign(new Error('there is no valid token'), { status: 401 });
    return this.#token = token;
  }

  async #run() {
    // The first answer tells whose inbox this is: only tabs of one user share a stream.
    let user;
    await this.#persist(async () => {
      const counts = await this.get('/counts');
      user = counts.user;
      this.#say({ type: 'counts', data: counts });
      return true;
    });
    let name = user && navigator.locks && self.BroadcastChannel && `tidings-inbox ${this.#base} ${user}`;
    if (name && !this.closed) {
      this.#channel = new BroadcastChannel(name);
      this.#channel.onmessage = ({ data }) => {
        this.#position = data.id ?? this.#position; // to take over from
        this.#host.receive(data);
      };
      this.#host.refresh(); // what was told before this tab could hear it
    }
    const { signal } = this.#stop;
    const follow = () => this.#persist((up) => this.#stream(up));
    while (!this.closed) {
      // One tab holds the lock and the stream; when it goes away, the next takes over. Without locks, each has its own.
      await (name ? navigator.locks.request(name, { signal }, follow) : follow()).catch(() => { name = ''; });
      if (this.#asleep) await new Promise((wake) => { this.#wake = wake; });
    }
  }

  // Tries until the work says that it is done, resting longer after each failure in a row.
  async #persist(work) {
    let failures = 0;
    const up = () => { failures = 0; this.#say({ type: 'link', up: true }); };
    while (!this.closed && !this.#asleep) {
      let wait = 0;
      try {
        if (await work(up)) return;
      } catch (error) {
        if (this.closed || this.#asleep) return;
        if ([401, 403, 404].includes(error.status)) { // asking again cannot help
          this.close();
          this.#host.receive({ type: 'failed', error });
          return;
        }
        if (error.status === 400) this.#position = ''; // it means nothing to this server
        wait = error.wait || 0;
      }
      failures += 1;
      if (failures > 1) this.#say({ type: 'link', up: false });
      if (failures > 3) this.#host.refresh(); // perhaps only streams do not get through
      const most = Math.min(30e3, 500 * 2 ** failures);
      await new Promise((wake) => {
        this.#wake = wake;
        setTimeout(wake, Math.max(wait, most / 2) + Math.random() * most / 2);
      });
    }
  }

  // With fetch: EventSource cannot send a header, and a token does not belong into an address.
  async #stream(up) {
    const cut = this.#cut = new AbortController();
    let [first, text, watchdog] = [true, ''];
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => cut.abort(), SILENCE);
    };
    try {
      alive();
      const headers = { accept: 'text/event-stream' };
      // What no header can hold is no position, whoever told it.
      if (/^[!-~]+$/.test(this.#position)) headers['last-event-id'] = this.#position;
      const answer = await this.#open('/stream', { headers, signal: cut.signal });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done || this.closed) return;
        alive();
        const frames = (text + value).replaceAll('\r\n', '\n').split('\n\n');
        text = frames.pop();
        for (const frame of frames) {
          // Only \n ends a line here. For `.`, `^` and `$` there are more, which may stand inside JSON.
          const { event, data, id } = Object.fromEntries(frame.split('\n').map((line) => line.split(/: ?([^]*)/, 2)));
          if (!data) continue; // a heartbeat
          const told = { type: event, data: JSON.parse(data), id, first };
          if (first) up();
          this.#position = id ?? this.#position;
          this.#say(told);
          first = false;
        }
      }
    } finally {
      clearTimeout(watchdog);
      cut.abort();
    }
  }

  #visibility() {
    clearTimeout(this.#nap);
    this.#asleep = false;
    if (document.hidden) {
      this.#hidden = Date.now();
      this.#nap = setTimeout(() => { this.#asleep = true; this.#cut?.abort(); this.#wake?.(); }, NAP);
    } else {
      this.#wake?.();
      if (Date.now() - this.#hidden > AWAY) this.#host.refresh();
    }
  }
}
