/** Writes docs/reference/errors.md from the tables of the code: exit codes, JSON-RPC codes, refusals of the gate, coded errors. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { runInNewContext } from 'node:vm';
import ts from 'typescript';
import { faultOf } from '../../src/http/errors.ts';
import { CodedError, EXIT } from '../../src/lib/coded-error.ts';
import { GateRefusal, type GateRefusalReason, RPC_CODES } from '../../src/plugin/request.ts';
import { ERRORS } from '../../src/runtime/errors.ts';
import { adviceFor, EXIT_ADVICE, REFUSAL_ADVICE, RPC_ADVICE } from './error-advice.ts';
import { listFiles } from './list-files.ts';
import { findProjectRoot } from './project-root.ts';

const root = findProjectRoot();
type Table = Readonly<Record<string, string>>;

const row = (...cells: readonly (string | number)[]) => `| ${cells.join(' | ')} |`;
const table = (head: readonly string[], rows: readonly string[]) =>
  [row(...head), row(...head.map(() => '---')), ...rows].join('\n');
const code = (text: string | number) => `\`${text}\``;

/** A table of coded errors in the text of a source file. */
export const TABLE = /^export const [A-Z_]+_ERRORS = \{$.*?^\} as const;$/msu;

/** The tables of all parts by the name of their owner, the kernel first. A plugin has its own in any of its files. */
export async function errorTables(): Promise<ReadonlyMap<string, Table>> {
  const tables = new Map<string, Table>([['kernel', ERRORS]]);
  for (const plugin of readdirSync(`${root}plugins`).sort()) {
    const own: Record<string, string> = {};
    for (const path of listFiles(`${root}plugins/${plugin}`, (name) => name.endsWith('.ts'))) {
      // A table is texts alone. To load each file with all that it imports took ten seconds.
      for (const [declared] of readFileSync(path, 'utf8').matchAll(new RegExp(TABLE, 'gmsu'))) {
        const text = declared.slice(declared.indexOf('{'), declared.lastIndexOf('}') + 1);
        Object.assign(own, runInNewContext(`(${text})`));
      }
    }
    if (Object.keys(own).length > 0) tables.set(plugin, own);
  }
  return tables;
}

/** The exit codes of each error in the source; an error without one ends a command with 70. */
function exitCodes(): ReadonlyMap<string, ReadonlySet<number>> {
  const found = new Map<string, Set<number>>();
  const note = (errorCode: string, exit: number) => found.set(errorCode, (found.get(errorCode) ?? new Set()).add(exit));
  for (const folder of ['src', 'plugins', 'packages']) {
    for (const path of listFiles(root + folder, (name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))) {
      const text = readFileSync(path, 'utf8');
      if (!text.includes('new CodedError(')) continue;
      const visit = (node: ts.Node): void => {
        if (ts.isNewExpression(node) && node.expression.getText() === 'CodedError') {
          const [name, , options] = (node.arguments ?? []).map((argument) => argument.getText());
          for (const [, exit = ''] of (options ?? '').matchAll(/exitCode: ([^,}]+)/g)) {
            const codes = [...exit.matchAll(/\bEXIT\.(\w+)/g)].map(([, which]) => EXIT[which as keyof typeof EXIT]);
            // A number, or a constant of the file's own, would be missing in the table.
            if (/\b[A-Z\d_]+\b/.test(exit.replaceAll(/\bEXIT\.\w+/g, '')))
              throw new Error(`${path}: ${name} ends with ${exit}; take the code from EXIT`);
            for (const [errorCode] of (name ?? '').matchAll(/[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+/g))
              for (const value of codes) note(errorCode, value);
          }
        }
        ts.forEachChild(node, visit);
      };
      visit(ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true));
    }
  }
  return found;
}

/** The status that the error mapper gives it. */
function httpStatus(errorCode: string): number {
  return faultOf(new CodedError(errorCode, ''), 'id').status;
}

function codedSection(name: string, errors: Table, exits: ReadonlyMap<string, ReadonlySet<number>>): string {
  const rows = Object.entries(errors).map(([errorCode, meaning]) => {
    const exit = [...(exits.get(errorCode) ?? [])].sort((a, b) => a - b).join(', ');
    const advice = adviceFor(errorCode);
    if (advice === null) throw new Error(`test/helpers/error-advice.ts has no advice for ${errorCode}`);
    return row(code(errorCode), meaning, httpStatus(errorCode), exit, advice);
  });
  return `### ${name}\n\n${table(['code', 'meaning', 'HTTP', 'exit', 'what to do'], rows)}`;
}

function refusalRow([reason, toDo]: [string, string]): string {
  const { status, message, details, rpc } = faultOf(new GateRefusal(reason as GateRefusalReason), 'id');
  const words = details === undefined ? code(message) : `${code(message)}, ${code(details)}`;
  return row(reason, status, words, `${code(rpc.code)} ${code(rpc.message)}`, toDo);
}

const rpcRow = ([name, { code: number, message, status }]: [string, (typeof RPC_CODES)[keyof typeof RPC_CODES]]) =>
  row(code(number), code(message), status, RPC_ADVICE[name]!);

function exitRow([name, number]: [string, number]): string {
  const [meaning, toDo] = EXIT_ADVICE[name]!;
  return row(number, meaning, toDo);
}

/** Codes of nodes (Agave 4.2.1, rpc-client-api/src/custom_error.rs) that the hosted API uses for something else. */
const NODE_MEANINGS: readonly (readonly [code: number, meaning: string, data: string])[] = [
  [-32001, '`Block … cleaned up, does not exist on node`', 'none'],
  [
    -32002,
    '`Transaction simulation failed: …`: the preflight; final',
    'the simulation: `err`, `logs`, `unitsConsumed`, …',
  ],
  [-32003, '`Transaction signature verification failure`; final', 'none'],
  [-32005, '`Node is unhealthy` or `Node is behind by … slots`', '`numSlotsBehind`'],
  [-32006, '`Transaction precompile verification failure …`; final', 'none'],
];

function nodeRow([code, meaning, data]: (typeof NODE_MEANINGS)[number]): string {
  const ours = Object.values(RPC_CODES).filter((one) => one.code === code);
  return row(`\`${code}\``, meaning, data, ours.map(({ message }) => `\`${message}\``).join(', '));
}

export async function errorsDocument(): Promise<string> {
  const exits = exitCodes();
  const sections = [...(await errorTables())].map(([name, errors]) => codedSection(name, errors, exits));
  return `${[
    '# Errors',
    'Look up an error here to see what it means and what to do.',
    '## Exit codes',
    table(['exit', 'meaning', 'what to do'], Object.entries(EXIT).map(exitRow)),
    '## JSON-RPC errors',
    'These are errors of the daemon; `error.data.details` contains the reason. Errors of an upstream are forwarded unchanged with HTTP 200, whatever their numbers.',
    table(['code', 'message', 'HTTP', 'what to do'], Object.entries(RPC_CODES).map(rpcRow)),
    'Five of these numbers mean something else when a node sends them. Alone, the HTTP status tells which it is; in a batch and on a websocket, message and `data` do:',
    table(['code', 'from a node', '`data` of a node', 'from the daemon'], NODE_MEANINGS.map(nodeRow)),
    'The daemon never sends the `data` of a node; a client that does not look at it takes an overloaded daemon for a failed transaction.',
    '## Refusals at the gate',
    'The body depends on the group of routes: `{error, code}`, with `details` on `/v1/wallet`, and `{statusCode, message, error}` on `/v0/admin`.',
    table(
      ['reason', 'HTTP', 'text, details', 'JSON-RPC', 'what to do'],
      Object.entries(REFUSAL_ADVICE).map(refusalRow),
    ),
    '## Coded errors',
    'These codes appear in the log and in the output of commands. HTTP is the status that a caller gets if the error ends a request; a 500 contains only the request id. Exit is given if the error ends the process; any other error ends a command with 70.',
    ...sections,
    'This page is written by `npm run errors:write` from the tables in the code.',
  ].join('\n\n')}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  writeFileSync(`${root}docs/reference/errors.md`, await errorsDocument());
