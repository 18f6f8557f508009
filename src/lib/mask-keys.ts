/**
 * Masks API keys in logs and traces. Clients put keys in unexpected places: in the path, in other parameters, in method names. So
 * everything in the form of a key is masked everywhere, as are the values of parameters whose names suggest a key. A key may be any text;
 * a short one in another form is recognized only by its parameter name.
 */

/** The form of generated keys, also without dashes; the first characters are those shown in lists of keys. */
const UUID = /([0-9a-f]{8})-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}/gi;
const KEY_WORD = new RegExp(`\\b${UUID.source}\\b`, 'gi');
const KEY_CHARACTERS = /[\w.-]{20,}/g;
/** Addresses and signatures are public, and needed by readers of the log. */
const PUBLIC = /^(?:\d+|[1-9A-HJ-NP-Za-km-z]{32,44}|[1-9A-HJ-NP-Za-km-z]{86,88})$/;
const NAMED =
  /((?:key|token|secret|password|passwd|credential)[\w.[\]-]*["']?=|(?:api[-_ ]?key|authorization|password|secret)["']?\s*[=:]\s*["']?(?:bearer\s+|basic\s+)?|bearer\s+)([^\s&;,"'?]+)/gi;
const KEY_NAME = /(?:key|token|secret|password|passwd|auth|authorization|bearer|credential)s?$/;
const METHOD = /^[A-Za-z_]*(?:V\d)?$/;
const SHORT = 12;
const MASK = '***';

/** Masks keys in any text, such as the name of a client or an error. */
export function maskKeys(text: string): string {
  if (text.length < 4) return text;
  return text
    .replace(NAMED, `$1${MASK}`)
    .replace(UUID, `$1-${MASK}`)
    .replace(KEY_CHARACTERS, (token) => (isLikeKey(token) ? `${token.slice(0, 4)}${MASK}` : token));
}

/** Masks what is named as a key, and what has the form of a generated one and is a word of its own: addresses stay whole. */
export function maskKeyWords(text: string): string {
  return text.replace(NAMED, `$1${MASK}`).replace(KEY_WORD, `$1-${MASK}`);
}

/** Masks what is named as a key or has the form of a generated one; other data stays, such as base64. */
export function maskNamedKeys(text: string): string {
  return text.replace(NAMED, `$1${MASK}`).replace(UUID, `$1-${MASK}`);
}

/** Long, with letters and several digits: neither a word nor a version. */
function isLikeKey(token: string): boolean {
  return !PUBLIC.test(token) && /[A-Za-z]/.test(token) && token.replace(/\D/g, '').length >= 4;
}

/** Masks keys in a raw query. Parts without keys stay unchanged byte by byte. */
export function maskQuery(query: string): string {
  if (query === '') return '';
  if (query.startsWith('api-key=') && !/[&;?]/.test(query)) return `api-key=${MASK}`;
  // Some clients use a second `?`, or `;`, instead of `&`.
  return query
    .split(/([&;?])/)
    .map((part) => maskPart(part))
    .join('');
}

function maskPart(part: string): string {
  const mark = part.indexOf('=');
  if (mark < 0) return maskSegment(part);
  const [name, value] = [part.slice(0, mark), part.slice(mark + 1)];
  if (
    value !== '' &&
    KEY_NAME.test(
      fullyDecoded(name)
        .toLowerCase()
        .replace(/[^a-z]/g, ''),
    )
  )
    return `${maskRaw(name)}=${MASK}`;
  return `${maskRaw(name)}=${maskRaw(value)}`;
}

/** Masks the decoded value; returns the raw value if nothing needs a mask. */
function maskRaw(raw: string): string {
  const decoded = fullyDecoded(raw);
  const masked = decoded.includes('?') || decoded.includes('&') ? maskInside(decoded) : maskKeys(decoded);
  return masked === decoded ? raw : masked;
}

/** Masks an address inside of a value. */
function maskInside(text: string): string {
  const mark = text.search(/[?&]/);
  const [before, after] = [text.slice(0, mark + 1), text.slice(mark + 1)];
  return maskKeys(before) + maskQuery(after);
}

/** Masks the path of a request; segments that are not literal in the pattern of the route come from clients. */
export function maskPath(path: string, pattern: string): string {
  if (path === pattern) return path;
  const known = pattern.split('/');
  return path
    .split('/')
    .map((segment, at) => (segment === known[at] ? segment : maskSegment(segment)))
    .join('/');
}

/** Masks the method of a JSON-RPC call, or another label. */
export function maskMethod(name: string): string {
  return METHOD.test(name) ? name : maskSegment(name);
}

function maskSegment(segment: string): string {
  const decoded = fullyDecoded(segment);
  // A purely hexadecimal text is a key without dashes, not an address.
  if (PUBLIC.test(decoded) && decoded.search(UUID) < 0) return segment;
  const masked = maskKeys(decoded);
  if (masked !== decoded) return masked;
  return decoded.length < SHORT ? segment : `${decoded.slice(0, 4)}${MASK}`;
}

/** Decodes repeatedly, because a key may have been escaped more than once. */
function fullyDecoded(text: string): string {
  let decoded = text.includes('+') ? text.replaceAll('+', ' ') : text;
  for (let times = 0; times < 4 && decoded.includes('%'); times += 1) {
    // Decode escapes one by one: a broken one must not hide the others.
    const next = decoded.replace(/(?:%[0-9a-f]{2})+/gi, (escapes) => {
      try {
        return decodeURIComponent(escapes);
      } catch {
        return escapes.replace(/%([0-7][0-9a-f])/gi, (_all, hex: string) =>
          String.fromCharCode(Number.parseInt(hex, 16)),
        );
      }
    });
    if (next === decoded) break;
    decoded = next;
  }
  return decoded;
}

/** Longer names are invented by clients. */
const MAX_NAME = 100;

export const shortName = (name: string): string => (name.length <= MAX_NAME ? name : name.slice(0, MAX_NAME));
