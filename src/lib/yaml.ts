/** Reads YAML (or JSON). What is wrong with a text is said in the words of who wrote it, not in the parser's. */
import {
  type Document,
  type ErrorCode,
  isCollection,
  isNode,
  isScalar,
  LineCounter,
  parseDocument,
  visit,
  type YAMLError,
} from 'yaml';

export { parse } from 'yaml';

type YamlReading =
  | {
      readonly kind: 'read';
      readonly value: unknown;
      /** Line of a value, counted from 1; null if the text does not contain it. */
      lineOf(path: readonly (string | number)[]): number | null;
    }
  /** Each with line and column, and without what the text contains, which may be a secret. */
  | { readonly kind: 'faulty'; readonly problems: readonly string[] };

const MAX_ALIASES = 100;

export function readYaml(text: string): YamlReading {
  const lines = new LineCounter();
  // Its pretty errors would quote the text.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const faults = [...document.errors, ...document.warnings.filter(({ code }) => LOSES_VALUES.has(code))];
  const problems = faults.length > 0 ? problemsOf(text, document, faults, lines) : aliasProblems(document, lines);
  if (problems.length > 0) return { kind: 'faulty', problems };
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch {
    return { kind: 'faulty', problems: [`more than ${MAX_ALIASES} values are repeated with *`] };
  }
  return {
    kind: 'read',
    value,
    lineOf(path) {
      const node: unknown = document.getIn(path, true);
      const start = isNode(node) ? node.range?.[0] : undefined;
      return start === undefined ? null : lines.linePos(start).line;
    },
  };
}

/** Warnings of the parser about values that it does not read as they are written: `!secret` is the tag of an empty text. */
const LOSES_VALUES: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['BAD_ALIAS', 'TAG_RESOLVE_FAILED']);

/** A fault of the parser where the writer sees it. */
interface Fault {
  readonly code: ErrorCode;
  readonly message: string;
  readonly line: number;
  readonly column: number;
  /** The line, and what of it stands before the column. */
  readonly text: string;
  readonly before: string;
}

interface Words {
  readonly code: ErrorCode;
  /** Another fault that the same line has to have. */
  readonly with?: ErrorCode;
  readonly message?: RegExp;
  readonly text?: RegExp;
  readonly before?: RegExp;
  readonly says: string;
}

const NO_DASH_SPACE = /^\s*-[^\s-]/;
const NO_COLON_SPACE = /^\s*(- +)?[\w.-]+:[^\s/]/;
const LINE_START = /^\s*$/;
const TOO_DEEP = 'the next line is indented too far: the keys of a section start in the same column';
const NO_SPACE_AFTER_DASH = 'a space is missing after the dash';
const NO_SPACE_AFTER_COLON = 'a space is missing after the colon';
const NO_COMMA = 'a comma is missing here';
const OPEN_BRACKET = 'this [ or { is never closed';

/** What the faults of the parser mean; of several faults of a line the first of this list counts. */
const WORDS: readonly Words[] = [
  { code: 'TAB_AS_INDENT', says: 'this line is indented with a tab; use spaces' },
  { code: 'DUPLICATE_KEY', says: 'this key already stands above in the same section; keep one of the two' },
  { code: 'BAD_INDENT', text: NO_DASH_SPACE, says: NO_SPACE_AFTER_DASH },
  { code: 'MISSING_CHAR', message: /map values/, text: NO_DASH_SPACE, says: NO_SPACE_AFTER_DASH },
  { code: 'MULTILINE_IMPLICIT_KEY', text: NO_COLON_SPACE, says: NO_SPACE_AFTER_COLON },
  { code: 'MISSING_CHAR', message: /map values/, text: NO_COLON_SPACE, says: NO_SPACE_AFTER_COLON },
  { code: 'MISSING_CHAR', message: /after :/, says: NO_SPACE_AFTER_COLON },
  { code: 'BLOCK_AS_IMPLICIT_KEY', with: 'MULTILINE_IMPLICIT_KEY', says: TOO_DEEP },
  {
    code: 'BLOCK_AS_IMPLICIT_KEY',
    message: /mappings/,
    says: 'this value contains a colon and a space; put it in quotes',
  },
  { code: 'MULTILINE_IMPLICIT_KEY', says: 'the colon after this key is missing, or the next line is indented too far' },
  { code: 'UNEXPECTED_TOKEN', message: /block-seq-ind/, says: 'a list starts on the line below its key' },
  { code: 'BAD_INDENT', message: /^Flow/, says: OPEN_BRACKET },
  {
    code: 'BAD_INDENT',
    says: 'the indentation of this line does not fit: the keys of a section, and the dashes of a list, start in the same column',
  },
  { code: 'MISSING_CHAR', message: /map values/, says: 'the colon after this key is missing' },
  { code: 'MISSING_CHAR', message: /quote/, says: 'this quote is never closed' },
  { code: 'MISSING_CHAR', message: /^Flow/, says: OPEN_BRACKET },
  { code: 'MISSING_CHAR', message: /^Missing ,/, says: NO_COMMA },
  {
    code: 'MISSING_CHAR',
    message: /^Comments/,
    says: 'a space is missing before the #; a value that contains one needs quotes',
  },
  { code: 'BLOCK_IN_FLOW', says: `${NO_COMMA}, or quotes around a value that contains a colon` },
  { code: 'BAD_SCALAR_START', says: 'a value cannot start with this sign; put it in quotes' },
  {
    code: 'BAD_DQ_ESCAPE',
    says: 'a backslash in double quotes starts an escape, and this is none; write two of them, or use single quotes',
  },
  { code: 'BAD_ALIAS', says: 'a value cannot start with & or *; put it in quotes' },
  { code: 'TAG_RESOLVE_FAILED', says: 'a value cannot start with !; put it in quotes' },
  { code: 'MULTIPLE_DOCS', says: 'a second document starts here; a file has one' },
  { code: 'UNEXPECTED_TOKEN', message: /Block scalar/, says: 'the text after | or > starts on the next line' },
  { code: 'UNEXPECTED_TOKEN', message: /Unexpected , /, says: 'this comma is one too many' },
  { code: 'UNEXPECTED_TOKEN', message: /flow-(map|seq)-end/, says: 'this bracket closes none that is open' },
  {
    code: 'UNEXPECTED_TOKEN',
    message: /at node end/,
    before: LINE_START,
    says: 'this line is indented less than the first one: the keys of a section start in the same column',
  },
  {
    code: 'UNEXPECTED_TOKEN',
    message: /at node end/,
    says: 'there is more after the end of the value; put all of it in one pair of quotes',
  },
];

/** Where the parser gives up: what it reports of the rest are consequences. */
const GIVES_UP = /at node end/;

function problemsOf(
  text: string,
  document: Document,
  errors: readonly YAMLError[],
  lines: LineCounter,
): readonly string[] {
  const end = errors.findIndex(({ message }) => GIVES_UP.test(message)) + 1;
  const counted = end === 0 ? errors : errors.slice(0, end);
  const byLine = new Map<number, Fault[]>();
  for (const error of counted) {
    const fault = faultOf(text, document, error, lines);
    const known = byLine.get(fault.line);
    if (known === undefined) byLine.set(fault.line, [fault]);
    else known.push(fault);
  }
  return [...byLine.values()].sort(([a], [b]) => a!.line - b!.line).map(inWords);
}

function inWords(faults: readonly Fault[]): string {
  const [first] = faults as [Fault];
  for (const words of WORDS) {
    if (words.with !== undefined && !faults.some(({ code }) => code === words.with)) continue;
    const found = faults.find((fault) => isMeant(words, fault));
    if (found !== undefined) return `line ${found.line}, column ${found.column}: ${words.says}`;
  }
  return `line ${first.line}, column ${first.column}: this is not YAML (${first.code})`;
}

const isMeant = (words: Words, { code, message, text, before }: Fault): boolean =>
  code === words.code &&
  (words.message?.test(message) ?? true) &&
  (words.text?.test(text) ?? true) &&
  (words.before?.test(before) ?? true);

function faultOf(text: string, document: Document, { code, message, pos }: YAMLError, lines: LineCounter): Fault {
  const offset = opening(text, document, code, message, pos[0]) ?? pos[0];
  const { line, col } = lines.linePos(offset);
  const start = offset - (col - 1);
  const whole = /^[^\r\n]*/.exec(text.slice(start))?.[0] ?? '';
  // The start of a line that is indented is where its text starts; a tab is seen where it stands.
  const blanks = /^ */.exec(whole)?.[0].length ?? 0;
  const column = Math.max(col, blanks + 1);
  return { code, message, line, column, text: whole, before: whole.slice(0, column - 1) };
}

/** Where the quote or bracket opens that is not closed; the parser reports where it misses the closing one. */
function opening(text: string, document: Document, code: ErrorCode, message: string, missedAt: number): number | null {
  if (code !== 'MISSING_CHAR' && code !== 'BAD_INDENT') return null;
  const isQuote = /closing .quote/.test(message);
  if (!isQuote && !message.startsWith('Flow')) return null;
  let found: number | null = null;
  visit(document, {
    Node(_key, node) {
      const isOpened = isQuote
        ? isScalar(node) && (node.type === 'QUOTE_DOUBLE' || node.type === 'QUOTE_SINGLE')
        : isCollection(node) && node.flow === true && !/[\]}]/.test(text.charAt((node.range?.[1] ?? 0) - 1));
      if (isOpened && node.range != null && node.range[0] < missedAt) found = Math.max(found ?? 0, node.range[0]);
    },
  });
  return found;
}

/** Values that repeat one which is not there, or which they are part of. */
function aliasProblems(document: Document, lines: LineCounter): readonly string[] {
  const problems: string[] = [];
  visit(document, {
    Alias(_key, node) {
      const [start, end] = node.range ?? [0, 0];
      const repeated = node.resolve(document);
      const [from, to] = repeated?.range ?? [0, 0];
      const { line, col } = lines.linePos(start);
      const place = `line ${line}, column ${col}`;
      if (repeated === undefined)
        problems.push(
          `${place}: a value that starts with * repeats one that starts with &, and there is none of this name; put it in quotes`,
        );
      else if (from <= start && end <= to) problems.push(`${place}: this value repeats one that contains it`);
    },
  });
  return problems;
}
