// Making DOM nodes of what a message says. Nothing is ever parsed as HTML: text stays text, whoever wrote it.

const ICONS = {
  bell: 'M5 17h14l-1.6-2.5V10a5.4 5.4 0 0 0-10.8 0v4.5zM9.7 20a2.4 2.4 0 0 0 4.6 0M12 4.5V3',
  read: 'M5 12.5l4.5 4.5L19 7.5', unread: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8z', close: 'M6 6l12 12M18 6L6 18',
  archive: 'M4 5h16v4H4zM5.5 9v10h13V9M10 13h4', unarchive: 'M5 11v8h14v-8M12 15V4M8 8l4-4 4 4',
  error: 'M12 4.5L3.5 19h17zM12 10v4M12 16.6v.1',
};

const h = (tag, props, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (typeof value === 'function') node.addEventListener(name, value);
    else if (value !== false && value != null) node.setAttribute(name, value === true ? '' : value);
  }
  if (props?.class) node.setAttribute('part', props.class); // what has a class, a host may style by ::part()
  node.append(...children.filter((child) => child != null));
  return node;
};

const button = (props, ...children) => h('button', { type: 'button', ...props }, ...children);

const icon = (name) => {
  const [svg, path] = ['svg', 'path'].map((tag) => document.createElementNS('http://www.w3.org/2000/svg', tag));
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('aria-hidden', 'true');
  path.setAttribute('d', ICONS[name]);
  svg.append(path);
  return svg;
};

// The address as the browser itself understands it (it drops the line end inside `java\nscript:`), or null.
const safeUri = (text, schemes) => {
  if (!URL.canParse(text, document.baseURI)) return null;
  const { protocol, href } = new URL(text, document.baseURI);
  const never = /^(javascript|data|vbscript|blob|file|about):$/.test(protocol);
  return !never && ['http:', 'https:', ...schemes].includes(protocol) ? href : null;
};

const link = (target, label) => {
  const href = safeUri(target, ['mailto:']);
  return href ? h('a', { href, target: '_blank', rel: 'noopener noreferrer' }, label) : label;
};

// No alternative can run over its own opening sign, so a hostile text costs no more than its length.
const INLINE = new RegExp([
  '`([^`\\n]+)`', '\\*\\*([^*\\n]+)\\*\\*', '\\*([^*\\n]+)\\*', '\\[([^\\[\\]\\n]+)\\]\\(([^()\\s]+)\\)',
  '(https?://[^\\s<>"*`]*[^\\s<>"*`.,;:!?)\\]])',
].join('|'), 'g');

const inline = (text) => {
  const nodes = [];
  let from = 0;
  for (const found of text.matchAll(INLINE)) {
    const [all, code, bold, em, label, target, bare] = found;
    nodes.push(text.slice(from, found.index));
    from = found.index + all.length;
    if (code) nodes.push(h('code', null, code));
    else if (bold) nodes.push(h('strong', null, ...inline(bold)));
    else if (em) nodes.push(h('em', null, ...inline(em)));
    else nodes.push(link(target ?? bare, label ?? bare));
  }
  return [...nodes, text.slice(from)];
};

// The small part of Markdown that a message needs: paragraphs, lists, bold, emphasis, code and links.
const paragraphs = (text) => String(text).slice(0, 20000).trim().split(/\n\s*\n/).map((part) => {
  const lines = part.split('\n');
  return lines.every((line) => /^\s*[-*] /.test(line))
    ? h('ul', null, ...lines.map((line) => h('li', null, ...inline(line.trim().slice(2)))))
    : h('p', null, ...lines.flatMap((line, n) => [n ? h('br') : '', ...inline(line)]));
});

const block = ({ type, text, items, url }) => {
  if (Array.isArray(items)) return paragraphs(items.map((item) => `- ${item}`).join('\n'));
  if (type === 'heading') return [h('h3', null, text)];
  return url ? [h('p', null, link(url, text))] : paragraphs(text ?? '');
};

const bodyNodes = (body) => {
  if (body == null) return [];
  if (typeof body !== 'object') return paragraphs(body);
  if (typeof body.text === 'string') return paragraphs(body.text);
  if (Array.isArray(body.blocks)) return body.blocks.slice(0, 100).flatMap((one) => block(Object(one)));
  return [h('pre', null, JSON.stringify(body, null, 2).slice(0, 20000))];
};
