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
