const MAX_DEPTH = 512;

/**
 * `JSON.stringify` that writes a bigint as a bare integer of any size. Undefined becomes `null`, so the result is always JSON. Values
 * without a bigint use the native implementation. Throws TypeError for a cycle.
 */
export function stringify(value: unknown): string {
  try {
    return JSON.stringify(value) ?? 'null';
  } catch (error) {
    // The native implementation throws the same TypeError for bigints and cycles; the code below also detects cycles.
    if (!(error instanceof TypeError)) throw error;
  }
  return write('', value, 0) ?? 'null';
}

/** The text of one value, or undefined if JSON omits the member. */
function write(key: string, given: unknown, depth: number): string | undefined {
  if (depth > MAX_DEPTH) throw new TypeError('json: a cycle, or nested too deeply');
  const value = hasToJson(given) ? given.toJSON(key) : given;
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null || isBoxed(value)) return JSON.stringify(value);
  if (Array.isArray(value)) {
    return `[${Array.from(value, (item, index) => write(String(index), item, depth + 1) ?? 'null').join(',')}]`;
  }
  const members: string[] = [];
  for (const [name, member] of Object.entries(value)) {
    const text = write(name, member, depth + 1);
    if (text !== undefined) members.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${members.join(',')}}`;
}

function hasToJson(value: unknown): value is { toJSON(key: string): unknown } {
  return typeof value === 'object' && value !== null && typeof (value as { toJSON?: unknown }).toJSON === 'function';
}

function isBoxed(value: object): boolean {
  return value instanceof String || value instanceof Number || value instanceof Boolean;
}

/** Whether a value is an object, but neither null nor an array. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Integers that a double may not hold exactly, and strings, which are skipped. */
const LONG_INTEGERS = /"(?:[^"\\]|\\.)*"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g;

/** Parses JSON text; integers that a double cannot hold exactly become bigints. Throws SyntaxError. */
export function parseExact(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const mark = `\u0000${text.length}:`;
  const marked = text.replace(LONG_INTEGERS, (token) => {
    // Leading zeros are not JSON: they stay unchanged and fail below.
    const rounds = token[0] !== '"' && !/^-?0/.test(token) && !Number.isSafeInteger(Number(token));
    return rounds ? JSON.stringify(mark + token) : token;
  });
  return JSON.parse(marked, (_key, value: unknown) =>
    typeof value === 'string' && value.startsWith(mark) && /^-?\d+$/.test(value.slice(mark.length))
      ? BigInt(value.slice(mark.length))
      : value,
  );
}
