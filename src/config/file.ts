import { readFileSync } from 'node:fs';
import { isNode, LineCounter, parseDocument } from 'yaml';
import { CodedError, messageOf } from '../lib/coded-error.ts';
import { isPlainObject } from '../lib/json.ts';
import { EXIT } from '../runtime/errors.ts';

export type ConfigPath = readonly (string | number)[];

export interface ConfigFile {
  readonly values: Readonly<Record<string, unknown>>;
  /** Line of a key, counted from 1; null if the file does not contain it. */
  lineOf(path: ConfigPath): number | null;
}

export const emptyFile: ConfigFile = { values: {}, lineOf: () => null };

/** Reads a YAML (or JSON) file. Errors: CONFIG_UNREADABLE, CONFIG_INVALID with all syntax errors and their lines. */
export function readConfigFile(path: string): ConfigFile {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new CodedError('CONFIG_UNREADABLE', `cannot read ${path}: ${messageOf(error)}`, { exitCode: EXIT.config });
  }
  return parseConfig(text, path);
}

/** Parses the text of a configuration; `name` is used in messages. */
function parseConfig(text: string, name: string): ConfigFile {
  const lines = new LineCounter();
  // prettyErrors would quote the source line, which may contain a secret.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  if (document.errors.length > 0) {
    const problems = document.errors.map(({ pos, message }) => `line ${lines.linePos(pos[0]).line}: ${message}`);
    throw invalid(name, problems);
  }
  const values: unknown = document.toJS({ maxAliasCount: 100 }) ?? {};
  if (!isPlainObject(values)) throw invalid(name, ['the top level is not a list of keys']);
  return {
    values,
    lineOf(path) {
      const node: unknown = document.getIn(path, true);
      const start = isNode(node) ? node.range?.[0] : undefined;
      return start === undefined ? null : lines.linePos(start).line;
    },
  };
}

function invalid(name: string, problems: readonly string[]): CodedError {
  return new CodedError('CONFIG_INVALID', `${name} is not valid YAML: ${problems.join('; ')}`, {
    exitCode: EXIT.config,
    facts: { problems },
  });
}
