// <tidings-inbox>: the inbox of a user as one custom element. It is served as one file: style.css, nodes.js, session.js
// and this. How to use it is in docs/inbox-widget.md. It needs a browser of 2024: Chrome 123, Firefox 125, Safari 17.5.

// What a host may change by `element.messages = {…}`; {n} is a number or a title.
const TEXTS = {
  title: 'Notifications', bell: 'Notifications, {n} unread', all: 'All', tabs: 'Categories', filter: 'Show',
  inbox: 'Inbox', unreadOnly: 'Unread', archived: 'Archived', markAll: 'Mark all read', read: 'Mark as read',
  unread: 'Mark as unread', archive: 'Archive', unarchive: 'Move to inbox', close: 'Close', more: 'Load more',
  expand: 'Show more', collapse: 'Show less', isUnread: 'Unread', now: 'now', empty: 'You are all caught up',
  hint: 'New messages will appear here.', nothing: 'Nothing here', loading: 'Loading messages', retry: 'Try again',
  error: 'Messages could not be loaded', denied: 'Your session has ended. Reload the page to go on.',
  offline: 'You are offline. New messages appear once you are back.', down: 'Connection lost. Trying again …',
  arrived: 'New message: {n}', arrivedMany: '{n} new messages', gone: 'Message archived', undo: 'Undo',
  failed: 'That did not work. Please try again.',
};

const SHEET = new CSSStyleSheet(); // a strict content security policy refuses <style>
SHEET.replaceSync(CSS);

const PATCHES = {
  read: () => ({ unread: false, read_at: Date.now() }),
  unread: () => ({ unread: true, read_at: null, archived_at: null }),
  archive: () => ({ ...PATCHES.read(), archived_at: Date.now() }), unarchive: () => ({ archived_at: null }),
};
const FILTERS = { inbox: 'bell', unreadOnly: 'read', archived: 'archive' };

// Whether two answers say the same, in whatever order. When a message was seen or read is not shown.
const shown = (one) => Object.entries(one).filter(([key]) => !/^(seen|read)_at$/.test(key)).sort();
const sorted = (_, one) => (Object(one) === one && !Array.isArray(one) ? shown(one) : one);
const same = (...all) => new Set(all.map((one) => JSON.stringify(one, sorted))).size === 1;

const short = (count) => (count > 99 ? '99+' : String(count));

class TidingsInbox extends HTMLElement {
  static observedAttributes = ['server', 'inbox', 'token', 'refresh-token', 'lang', 'mode'];

  #session; #ui; #texts; #language; #getToken; #given; #starting; #painting; #minute; #timers = {}; #new = [];
  #counts = null; #countsAt = 0; #clock = 0; #tab = ''; #filter = 'inbox'; #view; #messages = new Map();
  #rows = new Map(); #pending = new Map(); #expanded = new Set(); #reported = new Set(); #told = new Set(); #down; #denied; #toast;

  connectedCallback() {
    if (!this.shadowRoot) this.attachShadow({ mode: 'open' }).adoptedStyleSheets = [SHEET];
    // What a page has set before this script came hides the accessors below.
    for (const name of ['getToken', 'messages'].filter((one) => Object.hasOwn(this, one))) {
      const value = this[name];
      delete this[name];
      this[name] = value;
    }
    this.#build();
    this.#start();
    this.#minute = setInterval(() => this.#changed(), 30e3);
  }

  disconnectedCallback() {
    clearInterval(this.#minute);
    this.#session?.close();
    this.#session = null;
  }

  attributeChangedCallback(name, before, after) {
    if (before === after || !this.#ui) return;
    if (name === 'lang' || name === 'mode') this.#build();
    else this.#start();
  }

  get getToken() { return this.#getToken; }
  set getToken(callback) { this.#getToken = callback; if (!this.#session) this.#start(); }
  get messages() { return this.#given; }
  set messages(texts) { this.#given = texts; if (this.#ui) this.#build(); }
  get counts() { return structuredClone(this.#counts); }

  open() { if (!this.#showing) this.#ui?.panel.showPopover(); }
  close() { if (this.#popover && this.#showing) this.#ui.panel.hidePopover(); }
  refresh() { this.#recount(); this.#stale(); }

  emit(name, detail, cancelable = false) {
    const options = { detail, cancelable, bubbles: true, composed: true };
    return this.dispatchEvent(new CustomEvent(`tidings-inbox:${name}`, options));
  }

  get #popover() { return this.getAttribute('mode') !== 'page'; }
  get #showing() { return this.#ui && (!this.#popover || this.#ui.panel.matches(':popover-open')); }
  get #rtl() { return getComputedStyle(this).direction === 'rtl'; }

  #t(key, n) { return this.#texts[key].replace('{n}', () => n); }

  #later(name, wait, run) {
    clearTimeout(this.#timers[name]);
    this.#timers[name] = setTimeout(run, wait);
  }

  // Frameworks set attributes one by one: it begins when all are there.
  #start() {
    if (this.#starting) return;
    this.#starting = true;
    queueMicrotask(() => {
      this.#starting = this.#denied = this.#down = false;
      this.#session?.close();
      this.#session = this.#counts = null;
      for (const one of [this.#messages, this.#pending, this.#reported]) one.clear();
      if (!this.isConnected) return;
      const known = this.#getToken || this.hasAttribute('token') || this.hasAttribute('refresh-token');
      if (known) this.#session = new Session(this);
      this.#show();
    });
  }

  receive({ type, data, first, up, error }) {
    if (type === 'counts') this.#setCounts(data, this.#clock += 1);
    if (type === 'message') this.#arrived(data);
    if (type === 'marks' || first) this.#stale(); // anything may have been marked before
    if (type === 'link') this.#down = !up;
    if (type === 'failed') {
      this.#denied = error.status === 401 ? 'denied' : 'error';
      this.#failed(error);
    }
    this.#changed();
  }

  #arrived(message) {
    const view = this.#view;
    this.#remember(message);
    // What is older than the end of the list comes with the next page.
    const fits = view.filter !== 'archived' && (!view.category || view.category === message.category)
      && !view.ids.includes(message.id) && (!view.cursor || message.id > view.ids.at(-1));
    if (view.busy) view.again = true; // the answer under way may have been made before
    if (view.ready && fits) view.ids = [message.id, ...view.ids].sort().reverse();
    if (this.#told.has(message.id)) return;
    this.#told.add(message.id);
    if (this.#told.size > 300) this.#forget();
    this.emit('message', { message });
    this.#new.push(message.title);
    this.#later('new', 250, () => { // a crowd is announced once
      const titles = this.#new.splice(0);
      this.#announce(titles[1] ? this.#t('arrivedMany', titles.length) : this.#t('arrived', titles[0]));
    });
    this.#later('counts', 1000, () => this.#recount()); // should they not come by themselves
  }

  // What was asked for last must stand: an older answer that says something else is dropped, and the question repeated.
  #setCounts(counts, at) {
    const differs = !same(counts, this.#counts);
    if (!counts || (at < this.#countsAt && !differs)) return;
    if (at < this.#countsAt) {
      this.#later('counts', 300, () => this.#recount());
      return;
    }
    clearTimeout(this.#timers.counts);
    this.#counts = counts;
    this.#countsAt = at;
    if (differs) this.emit('counts', this.counts);
    this.#changed();
  }

  async #recount() {
    const session = this.#session;
    const at = this.#clock += 1;
    const counts = await session?.get('/counts').catch(() => null);
    if (session === this.#session) this.#setCounts(counts, at);
  }

  // Something changed elsewhere. A list that nobody looks at is loaded when somebody does.
  #stale() {
    this.#later('stale', 150, () => {
      if (this.#showing) this.#load();
      else this.#view.ready = false;
    });
  }

  // -- the list

  #show() {
    this.#view = { category: this.#tab, filter: this.#filter, ids: [], cursor: null };
    if (this.#showing) this.#load();
    this.#changed();
  }

  // A page may stay open for weeks: a list that nobody looks at begins anew. Only the last could be told again.
  #forget() {
    this.#told = new Set([...this.#told].slice(-50));
    if (this.#showing && !document.hidden) return;
    for (const one of [this.#messages, this.#reported, this.#expanded]) one.clear();
    this.#show();
  }

  #remember(message) {
    const now = { ...message, ...this.#pending.get(message.id) };
    // The same object while nothing changed, so that its row stays.
    if (!same(this.#messages.get(message.id), now)) this.#messages.set(message.id, now);
  }

  async #load(more = false) {
    const [session, view] = [this.#session, this.#view];
    if (!session || view.busy) {
      view.again ||= !more;
      return;
    }
    view.busy = true;
    view.failed = view.again = false;
    this.#changed();
    try {
      // A reload covers as much as was there, so that nothing jumps.
      let missing = more ? 1 : Math.max(1, view.ids.length);
      let cursor = more ? view.cursor : null;
      const ids = more ? [...view.ids] : [];
      do {
        const query = new URLSearchParams({ limit: missing > 30 ? 100 : 30 });
        if (cursor) query.set('cursor', cursor);
        if (view.category) query.set('category', view.category);
        if (view.filter !== 'inbox') query.set(view.filter === 'archived' ? 'archived' : 'unread', 'true');
        const at = this.#clock += 1;
        const page = await session.get(`/messages?${query}`);
        if (session !== this.#session || view !== this.#view) return;
        page.messages.forEach((message) => this.#remember(message));
        ids.push(...page.messages.map(({ id }) => id));
        missing -= page.messages.length;
        cursor = page.next_cursor;
        this.#setCounts(page.counts, at);
      } while (cursor && missing > 0);
      Object.assign(view, { ids: [...new Set(ids)].sort().reverse(), cursor, ready: true });
      this.#reportSeen();
    } catch (error) {
      if (session !== this.#session) return;
      view.failed = true;
      this.#failed(error, more);
    } finally {
      view.busy = false;
      this.#changed();
      if (view.again && view === this.#view) this.#load();
    }
  }

  #reportSeen() {
    if (!this.#showing || document.hidden) return;
    const isNew = ({ id, seen_at: seen, unread }) => unread && !seen && !this.#reported.has(id);
    const ids = this.#view.ids.filter((id) => isNew(this.#messages.get(id)));
    ids.forEach((id) => this.#reported.add(id));
    while (ids.length) this.#session.put('/messages/seen', { ids: ids.splice(0, 50) }).catch(() => {});
  }

  // -- marks: shown at once, then made, and taken back if they could not be made

  async #mark(kind, id) {
    const before = this.#messages.get(id);
    const patch = PATCHES[kind]();
    this.#messages.set(id, { ...before, ...patch });
    this.#pending.set(id, patch);
    this.#changed();
    const made = await this.#put(kind, { ids: [id] });
    if (!made && this.#messages.has(id)) this.#messages.set(id, before);
    if (made && kind === 'read') this.emit('read', { ids: [id] });
    if (this.#pending.get(id) === patch) this.#pending.delete(id);
    this.#changed();
  }

  // Up to the newest one on display: what comes while the finger is on its way stays unread.
  async #markAll() {
    const { category, ids: [upTo] } = this.#view;
    this.#ui.panel.focus(); // the button is about to go
    if (!await this.#put('read-all', { up_to: upTo, ...(category && { category }) })) return;
    for (const [id, message] of this.#messages) {
      const covered = message.unread && id <= upTo && (!category || message.category === category);
      if (covered) this.#messages.set(id, { ...message, ...PATCHES.read() });
    }
    this.emit('read', { all: true, category, upTo });
    this.#changed();
  }

  async #put(kind, ask) {
    const session = this.#session;
    const at = this.#clock += 1;
    try {
      const { counts } = await session.put(`/messages/${kind}`, ask);
      if (session !== this.#session) return false;
      this.#setCounts(counts, at);
      session.tell({ type: 'counts', data: counts });
      session.tell({ type: 'marks' });
      return true;
    } catch (error) {
      if (session === this.#session) this.#failed(error, true);
      return false;
    }
  }

  // A mark with which the row leaves this list. What is archived is read: only "unread" takes all of that back.
  #move(kind, id, row) {
    const next = row.nextElementSibling ?? row.previousElementSibling;
    const back = this.#messages.get(id).unread ? 'unread' : 'unarchive';
    this.#mark(kind, id);
    (next?.querySelector('.title') ?? this.#ui.panel).focus();
    if (kind === 'archive') this.#say('gone', () => this.#mark(back, id));
  }

  #follow(event, id) {
    const message = this.#messages.get(id);
    const uri = event.currentTarget.href;
    if (message.unread) this.#mark('read', id);
    if (!uri && !this.#rows.get(id).more.hidden) this.#expand(id);
    if (!uri) return;
    if (!this.emit('click', { message, uri }, true)) event.preventDefault();
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) this.close();
  }

  #expand(id) {
    if (!this.#expanded.delete(id)) this.#expanded.add(id);
    this.#changed();
  }

  #failed(error, told = false) {
    this.emit('error', { error, status: error.status });
    if (told) this.#say('failed');
  }

  #say(key, undo) {
    const back = () => { this.#toast = null; this.#ui.panel.focus(); undo(); };
    this.#toast = [h('span', null, this.#t(key)), undo ? button({ click: back }, this.#t('undo')) : ''];
    this.#announce(this.#t(key));
    const wait = () => this.#later('toast', 7000, () => {
      // Who comes by keyboard or has the pointer on it has all the time he needs.
      if (undo && this.#ui.panel.querySelector(':focus-visible, .toast:hover')) wait();
      else { this.#toast = null; this.#changed(); }
    });
    wait();
    this.#changed();
  }

  #announce(text) { this.#ui.live.textContent = text; }

  #build() {
    this.#language = this.getAttribute('lang') || this.closest('[lang]')?.lang || navigator.language;
    this.#texts = { ...TEXTS, ...this.#given };
    this.#rows.clear();
    const t = (key) => this.#t(key);
    const ui = this.#ui = {};
    const prepare = () => { if (!this.#view?.ready && !this.#view?.busy) this.#load(); };
    ui.badge = h('span', { class: 'badge', 'aria-hidden': 'true', hidden: true });
    ui.bell = button({
      class: 'bell', popovertarget: 'panel', 'aria-haspopup': 'dialog', 'aria-expanded': 'false',
      pointerenter: prepare, focus: prepare,
    }, h('slot', { name: 'bell' }, icon('bell')), ui.badge);
    ui.filter = h('select', {
      class: 'quiet', 'aria-label': t('filter'),
      change: () => { this.#filter = ui.filter.value; this.#show(); },
    }, ...Object.keys(FILTERS).map((value) => h('option', { value, selected: value === this.#filter }, t(value))));
    ui.all = button({ class: 'quiet all', click: () => this.#markAll() }, t('markAll'));
    ui.tabs = h('div', {
      class: 'tabs', role: 'tablist', 'aria-label': t('tabs'), keydown: (event) => this.#tabKey(event),
    });
    ui.notice = h('p', { class: 'notice', role: 'status', hidden: true });
    ui.list = h('ul', { class: 'list', role: 'list', keydown: (event) => this.#listKey(event) });
    ui.state = h('div');
    ui.more = button({ class: 'plain more', hidden: true, click: () => this.#load(true) }, t('more'));
    ui.scroll = h('div', { class: 'scroll', id: 'messages', role: 'tabpanel' }, ui.list, ui.state, ui.more);
    ui.toast = h('div', { class: 'toast', hidden: true });
    ui.live = h('div', { class: 'sr', role: 'status' });
    const shut = button({ class: 'icon shut', 'aria-label': t('close'), click: () => this.close() }, icon('close'));
    ui.panel = h('section', {
      class: 'panel', id: 'panel', tabindex: -1, 'aria-labelledby': 'title',
      role: this.#popover ? 'dialog' : 'region', popover: this.#popover && 'auto',
      beforetoggle: (event) => this.#toggled(event.newState === 'open'),
    }, h('header', null, h('h2', { id: 'title', class: 'heading' }, t('title')), ui.filter, ui.all, shut),
    ui.tabs, ui.notice, ui.toast, ui.scroll, h('slot', { name: 'footer' }));
    // In the order of the keys the step before the list is "Undo"; on the screen it stands below.
    this.shadowRoot.replaceChildren(this.#popover ? ui.bell : '', ui.panel, ui.live);
    ui.sight = new IntersectionObserver(([{ isIntersecting }]) => {
      if (isIntersecting && !this.#view.failed) this.#load(true);
    }, { root: this.#popover ? ui.scroll : null, rootMargin: '200px' });
    if (this.#view) this.#show();
  }

  // In the top layer no header can cut the panel off; but there it has to be told where the bell is.
  #place = () => {
    const { bell, panel } = this.#ui;
    const at = bell.getBoundingClientRect();
    const left = this.#rtl ? at.left : at.right - panel.offsetWidth;
    const below = innerHeight - at.bottom - 16;
    const down = below >= Math.min(360, at.top);
    const set = (name, value) => panel.style.setProperty(name, `${Math.max(8, value)}px`);
    set('--x', Math.min(left, document.documentElement.clientWidth - panel.offsetWidth - 8));
    set('--h', down ? below : at.top - 16);
    set('--y', down ? at.bottom + 8 : at.top - 8 - panel.offsetHeight);
  };

  #toggled(open) {
    const { bell, panel } = this.#ui;
    bell.setAttribute('aria-expanded', String(open));
    (open ? addEventListener : removeEventListener)('resize', this.#place);
    (open ? addEventListener : removeEventListener)('scroll', this.#place, true);
    if (!open && panel.contains(this.shadowRoot.activeElement)) bell.focus();
    if (!open) return;
    requestAnimationFrame(() => { // by then it has a size, and nobody has seen it yet
      if (!this.#showing) return;
      if (this.#view.ready) this.#reportSeen();
      else this.#load();
      this.#paint();
      panel.focus();
      this.emit('open');
    });
  }

  #changed() {
    if (this.#painting) return;
    this.#painting = true;
    queueMicrotask(() => {
      this.#painting = false;
      if (this.isConnected && this.#view) this.#paint();
    });
  }

  #paint() {
    const { badge, bell, notice, toast } = this.#ui;
    const unread = this.#counts?.unread ?? 0;
    badge.hidden = !unread;
    badge.textContent = short(unread);
    bell.setAttribute('aria-label', this.#t(unread ? 'bell' : 'title', unread));
    if (!this.#showing) return;
    const offline = navigator.onLine ? this.#down && 'down' : 'offline';
    const trouble = this.#denied ? this.#view.ids.length && this.#denied : offline;
    notice.hidden = !trouble;
    notice.textContent = trouble ? this.#t(trouble) : '';
    this.#paintTabs(unread);
    this.#paintList();
    toast.hidden = !this.#toast;
    if (this.#toast && toast.firstChild !== this.#toast[0]) toast.replaceChildren(...this.#toast);
    if (this.#popover) this.#place();
  }

  #paintTabs(unread) {
    const { tabs, scroll, all } = this.#ui;
    const categories = { ...this.#counts?.categories };
    if (this.#tab) categories[this.#tab] ??= { unread: 0 };
    const names = Object.keys(categories).filter((name) => name === this.#tab || categories[name].total > 0);
    const wanted = [['', unread], ...names.sort().map((name) => [name, categories[name].unread])];
    const [, left] = wanted.find(([name]) => name === this.#tab);
    all.disabled = !left || !this.#view.ids.length || this.#filter === 'archived';
    const state = JSON.stringify([this.#tab, wanted]);
    if (tabs.state === state) return;
    tabs.state = state;
    const focused = tabs.contains(this.shadowRoot.activeElement);
    tabs.replaceChildren(...wanted.map(([name, count], n) => Object.assign(button({
      class: 'tab', role: 'tab', id: `tab-${n}`, 'aria-controls': 'messages',
      'aria-selected': String(name === this.#tab), tabindex: name === this.#tab ? 0 : -1,
      click: () => this.#choose(name),
    }, name ? this.#label(name) : this.#t('all'), count ? h('span', null, short(count)) : ''), { name })));
    tabs.hidden = wanted.length < 2;
    const chosen = tabs.querySelector('[aria-selected=true]');
    scroll.setAttribute('aria-labelledby', tabs.hidden ? 'title' : chosen.id);
    chosen.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    if (focused) chosen.focus();
  }

  #label(category) {
    const plain = category.replace(/[._-]+/g, ' ').trim();
    return this.#given?.categories?.[category] ?? plain.charAt(0).toUpperCase() + plain.slice(1);
  }

  #choose(category) {
    this.#tab = category;
    this.#show();
  }

  #tabKey(event) {
    const names = [...this.#ui.tabs.children].map(({ name }) => name);
    const at = names.indexOf(this.#tab);
    const step = this.#rtl ? -1 : 1;
    const to = { ArrowLeft: at - step, ArrowRight: at + step, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.#choose(names.at(to % names.length));
  }

  #listKey(event) {
    const titles = [...this.#ui.list.querySelectorAll('.title')];
    const at = titles.findIndex((title) => title.closest('li').contains(event.target));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: titles.length - 1 }[event.key];
    if (!titles[to]) return;
    event.preventDefault();
    titles[to].focus();
  }

  #paintList() {
    const { list, state, more, sight } = this.#ui;
    const view = this.#view;
    const archived = view.filter === 'archived';
    const fits = ({ archived_at: at, expires_at: end }) =>
      Boolean(at) === archived && !(end + (this.#session?.ahead ?? 0) <= Date.now());
    const ids = view.ids.filter((id) => fits(this.#messages.get(id)));
    list.classList.toggle('one', Boolean(view.category));
    list.setAttribute('aria-busy', String(Boolean(view.busy)));
    for (const [id, { row }] of this.#rows) {
      if (ids.includes(id)) continue;
      row.remove();
      this.#rows.delete(id);
    }
    const made = [];
    ids.map((id) => this.#row(id, made)).forEach((row, n) => {
      if (list.children[n] !== row) list.insertBefore(row, list.children[n] ?? null);
    });
    for (const one of made) one.more.hidden = one.body.scrollHeight <= one.body.clientHeight + 2;
    for (const [id, { more: expand, body, time, message }] of this.#rows) {
      const full = this.#expanded.has(id);
      body.classList.toggle('full', full);
      expand.textContent = this.#t(full ? 'collapse' : 'expand');
      expand.setAttribute('aria-expanded', String(full));
      time.textContent = this.#ago(message.received);
    }
    const idle = view.failed && !view.busy ? 'error' : view.ready ? view.filter : 'loading';
    const what = ids.length ? '' : this.#denied || idle;
    if (state.what !== what) state.replaceChildren(...this.#stateNodes(state.what = what));
    more.hidden = !view.cursor || !ids.length;
    more.disabled = view.busy;
    if (view.busy) sight.unobserve(more); // or it would stop at a short page
    else if (!more.hidden) sight.observe(more);
  }

  #stateNodes(what) {
    if (!what) return [];
    if (what === 'loading') {
      return [h('p', { class: 'sr' }, this.#t(what)), ...Array.from({ length: 4 }, () => h('div', { class: 'bone' }))];
    }
    const box = (sign, key, more) =>
      h('div', { class: 'state' }, icon(sign), h('strong', null, this.#t(key)), more);
    if (what === 'inbox') return [h('slot', { name: 'empty' }, box('bell', 'empty', this.#t('hint')))];
    if (FILTERS[what]) return [box(FILTERS[what], 'nothing')];
    const retry = () => { if (this.#denied) this.#start(); else this.#load(); };
    return [box('error', what, button({ class: 'plain', click: retry }, this.#t('retry')))];
  }

  #row(id, made) {
    const message = this.#messages.get(id);
    const old = this.#rows.get(id);
    if (old?.message === message) return old.row;
    const { title, category, label, unread, archived_at: archived } = message;
    const schemes = (this.getAttribute('app-schemes') ?? '').split(/[\s,]+/).map((scheme) => `${scheme}:`);
    const href = message.cta_uri && safeUri(message.cta_uri, schemes);
    const act = (kind, run) => button({
      class: 'icon', title: this.#t(kind), 'aria-label': `${this.#t(kind)}: ${title}`, click: run,
    }, icon(kind));
    const toggle = unread ? 'read' : 'unread';
    const place = archived ? 'unarchive' : 'archive';
    const body = h('div', { class: 'body', dir: 'auto' });
    if (!this.renderBody || this.renderBody(message, body) === false) body.append(...bodyNodes(message.body));
    const more = button({ class: 'link', hidden: true, click: () => this.#expand(id) });
    const date = new Date(message.received);
    const time = h('time', {
      class: 'time', datetime: date.toISOString(), title: date.toLocaleString(this.#language),
    });
    const row = h('li', { class: unread ? 'item unread' : 'item' },
      h('div', { class: 'top' }, h(href ? 'a' : 'button', {
        class: 'title', dir: 'auto', href, click: (event) => this.#follow(event, id),
      }, unread ? h('span', { class: 'sr' }, `${this.#t('isUnread')}: `) : '', title), time),
      body, h('div', { class: 'below' }, more,
        category ? h('span', { class: 'chip' }, this.#label(category)) : '',
        label ? h('span', { class: 'label', dir: 'auto' }, label) : '',
        h('div', { class: 'actions' },
          act(toggle, () => (archived ? this.#move(toggle, id, row) : this.#mark(toggle, id))),
          act(place, () => this.#move(place, id, row)))));
    const entry = { message, row, body, more, time };
    made.push(entry);
    this.#rows.set(id, entry);
    if (old) {
      // Who stood on a button of the old row stands on that of the new.
      const place = [...old.row.querySelectorAll('a, button')].indexOf(this.shadowRoot.activeElement);
      old.row.replaceWith(row);
      row.querySelectorAll('a, button')[place]?.focus();
    }
    return row;
  }

  #ago(time) {
    const seconds = (time - Date.now()) / 1000;
    if (seconds > -60) return this.#t('now');
    const format = new Intl.RelativeTimeFormat(this.#language, { numeric: 'auto', style: 'narrow' });
    for (const [unit, size, limit] of [['minute', 60, 60], ['hour', 3600, 24], ['day', 86400, 7]]) {
      if (-seconds < size * limit) return format.format(Math.ceil(seconds / size), unit);
    }
    return new Date(time).toLocaleDateString(this.#language, { dateStyle: 'medium' });
  }
}

if (!customElements.get('tidings-inbox')) customElements.define('tidings-inbox', TidingsInbox);
