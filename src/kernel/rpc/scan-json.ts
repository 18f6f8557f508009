/** Positions in, positions out; -1 means that no value of that kind starts here. */
export interface JsonScanner {
  /** First position at or after `at` that is no white space. */
  space(at: number): number;
  /** End of the string whose opening quote is at `at`. */
  string(at: number): number;
  /** End of the value at `at`. `depth` counts the containers around it. */
  value(at: number, depth: number): number;
  /** Whether the last failure was the depth limit. */
  tooDeep(): boolean;
}

const WORDS: ReadonlyMap<number, string> = new Map([
  [0x74, 'true'],
  [0x66, 'false'],
  [0x6e, 'null'],
]);

/** A validating JSON reader over bytes that are known to be UTF-8. It keeps no values, only positions. */
export function createJsonScanner(body: Buffer, maxDepth: number): JsonScanner {
  let deep = false;

  const space = (from: number): number => {
    let at = from;
    for (;;) {
      const byte = body[at];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return at;
      at += 1;
    }
  };

  const string = (start: number): number => {
    for (let at = start + 1; ; at += 1) {
      const byte = body[at];
      if (byte === 0x22) return at + 1;
      if (byte === undefined || byte < 0x20) return -1;
      if (byte === 0x5c) {
        at = escapeEnd(body, at + 1);
        if (at < 0) return -1;
      }
    }
  };

  /** Iterative, because the depth of a hostile body must not become the depth of our stack. */
  const container = (start: number, outer: number): number => {
    // Which containers are open: true for objects.
    const open: boolean[] = [];
    let at = start;
    for (;;) {
      // At a value.
      const first = body[at];
      if (first === 0x7b || first === 0x5b) {
        if (outer + open.length + 1 > maxDepth) {
          deep = true;
          return -1;
        }
        open.push(first === 0x7b);
        at = space(at + 1);
        if (body[at] !== (first === 0x7b ? 0x7d : 0x5d)) {
          if (first === 0x7b) at = name(at);
          if (at < 0) return -1;
          continue;
        }
        open.pop();
        at += 1;
      } else at = scalar(at);
      if (at < 0) return -1;
      at = afterValue(at, open);
      if (at < 0 || open.length === 0) return at;
    }
  };

  /** Closes what ends here and goes to the next value; with nothing left open it gives the end. */
  const afterValue = (from: number, open: boolean[]): number => {
    let at = from;
    while (open.length > 0) {
      const isObject = open[open.length - 1] as boolean;
      at = space(at);
      const byte = body[at];
      if (byte === 0x2c) return isObject ? name(space(at + 1)) : space(at + 1);
      if (byte !== (isObject ? 0x7d : 0x5d)) return -1;
      open.pop();
      at += 1;
    }
    return at;
  };

  /** From a member's name to the start of its value. */
  const name = (at: number): number => {
    const end = body[at] === 0x22 ? string(at) : -1;
    if (end < 0) return -1;
    const colon = space(end);
    return body[colon] === 0x3a ? space(colon + 1) : -1;
  };

  const scalar = (at: number): number => {
    const first = body[at];
    if (first === undefined) return -1;
    if (first === 0x22) return string(at);
    const word = WORDS.get(first);
    if (word !== undefined) return wordEnd(body, at, word);
    return numberEnd(body, at);
  };

  return {
    space,
    string,
    value: (at, depth) => (body[at] === 0x7b || body[at] === 0x5b ? container(at, depth) : scalar(at)),
    tooDeep: () => deep,
  };
}

/** Position of the last byte of an escape whose letter is at `at`. */
function escapeEnd(body: Buffer, at: number): number {
  const letter = body[at];
  if (letter === 0x75) {
    for (let i = 1; i <= 4; i += 1) if (!isHex(body[at + i])) return -1;
    return at + 4;
  }
  // " \ / b f n r t
  const known =
    letter === 0x22 ||
    letter === 0x5c ||
    letter === 0x2f ||
    letter === 0x62 ||
    letter === 0x66 ||
    letter === 0x6e ||
    letter === 0x72 ||
    letter === 0x74;
  return known ? at : -1;
}

function isHex(byte: number | undefined): boolean {
  if (byte === undefined) return false;
  return isDigit(byte) || (byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66);
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

function wordEnd(body: Buffer, at: number, word: string): number {
  return body.toString('latin1', at, at + word.length) === word ? at + word.length : -1;
}

function numberEnd(body: Buffer, start: number): number {
  let at = body[start] === 0x2d ? start + 1 : start;
  if (!isDigit(body[at])) return -1;
  at = body[at] === 0x30 ? at + 1 : digitsEnd(body, at);
  if (body[at] === 0x2e) {
    if (!isDigit(body[at + 1])) return -1;
    at = digitsEnd(body, at + 1);
  }
  if (body[at] === 0x65 || body[at] === 0x45) {
    at += body[at + 1] === 0x2b || body[at + 1] === 0x2d ? 2 : 1;
    if (!isDigit(body[at])) return -1;
    at = digitsEnd(body, at);
  }
  return at;
}

function digitsEnd(body: Buffer, from: number): number {
  let at = from;
  while (isDigit(body[at])) at += 1;
  return at;
}
