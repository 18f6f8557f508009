/** `parhelion explain`: a transaction in words in the terminal. */

import { decode } from '../../src/lib/base58.ts';
import { EXIT } from '../../src/lib/coded-error.ts';
import { CodedError, type Command, codeOf, messageOf, RequestError } from '../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../src/ports/access.ts';
import { plainAmount } from '../../src/solana/accounts/amounts.ts';
import { errorText } from '../../src/solana/error-words.ts';
import type { ParsedInstruction, ParsedTransaction } from '../../src/solana/idl/parse-transaction.ts';
import { solAmount } from '../../src/solana/parsers/parser.ts';
import { explainDescription } from './command-list.ts';
import type { FetchTransactions } from './fetch.ts';
import { type Element, type ElementParts, elementJson, readElement } from './transactions.ts';

/** Coded errors of this plugin; the command ends with one, except for the interface that takes too long. @public */
export const PARSED_ERRORS = {
  PARSED_IDL_COSTLY: 'an interface takes too long to decode and is set aside for ten minutes',
  PARSED_NOT_FOUND: 'the upstreams do not have the transaction that a command asks for',
  PARSED_UNAVAILABLE: 'a command needs data that the upstreams do not return now',
  PARSED_UNREADABLE: 'the transaction cannot be decoded',
  PARSED_USAGE: 'a command was called with invalid values',
} as const;

interface ExplainParts {
  readonly fetch: FetchTransactions;
  readonly elements: ElementParts;
}

const SIGNATURE_BYTES = 64;
/** In base58. */
const MAX_SIGNATURE = 88;

export function explainCommand({ fetch, elements }: ExplainParts): Command {
  return {
    ...explainDescription,
    async run(options, io) {
      const signature = String(options['signature']);
      if (signature.length > MAX_SIGNATURE || decode(signature)?.length !== SIGNATURE_BYTES)
        throw new CodedError('PARSED_USAGE', `${signature.slice(0, 100)} is not a signature in base58`, {
          exitCode: EXIT.usage,
        });
      const project = typeof options['project'] === 'string' ? options['project'] : null;
      // A command ends by an interrupt; it has no caller.
      const asker = { signal: new AbortController().signal, tenant: OWN_WORK, project };
      let element: Element;
      try {
        const found = await fetch([signature], 'confirmed', asker);
        element = await readElement({ signature, found: found.get(signature) ?? null }, elements, asker);
      } catch (error) {
        const isUpstream = error instanceof RequestError || /^(CHAIN|UPSTREAM)_/.test(codeOf(error) ?? '');
        if (!isUpstream) throw error;
        throw new CodedError('PARSED_UNAVAILABLE', messageOf(error), { exitCode: EXIT.temporary, cause: error });
      }
      if (element.parserStatus === 'ERROR') {
        const { code, message } = element.parserError;
        if (code !== 'transaction_not_found')
          throw new CodedError('PARSED_UNREADABLE', message, { exitCode: EXIT.bug });
        throw new CodedError('PARSED_NOT_FOUND', `no upstream has the transaction ${signature}`, {
          exitCode: EXIT.temporary,
        });
      }
      if (options['json'] === true) io.line(elementJson(element));
      else for (const line of explainLines(signature, element.parsed)) io.line(line);
    },
  };
}

/** A list or an argument may be as long as a transaction allows: the terminal shows its beginning, `--json` all. */
const MAX_LINES = 40;
const MAX_TEXT = 160;

/** A transaction as lines of text. What programs and their interfaces contain cannot control the terminal. */
function explainLines(signature: string, parsed: ParsedTransaction): readonly string[] {
  const { slot, blockTime, fee, feePayer, transactionStatus, summary, instructions } = parsed;
  const when = blockTime === null ? '' : `, ${new Date(blockTime * 1_000).toISOString().replace('.000Z', 'Z')}`;
  const depths = instructions.map(depthOf);
  return [
    `${signature}`,
    `${transactionStatus === 'OK' ? 'succeeded' : 'FAILED'} in slot ${slot}${when}; fee ${solAmount(fee)} SOL${feePayer === null ? '' : `, paid by ${feePayer}`}`,
    ...errorLines(parsed),
    ...(summary === null ? [] : [plain(summary.description)]),
    '',
    ...instructions.flatMap((one, at) => instructionLines(one, rulesOf(depths, at))),
    ...movedLines(parsed),
  ];
}

function errorLines({ error, decodedError }: ParsedTransaction): readonly string[] {
  if (error === undefined) return [];
  if (decodedError === undefined) return [`error ${cut(JSON.stringify(error, exact))}: ${cut(errorText(error))}`];
  const { instructionIndex, programName, code, name, msg } = decodedError;
  const where = `instruction ${instructionIndex + 1}, ${programName}`;
  return [`error ${plain(name)} (${code}) in ${plain(where)}${msg === null ? '' : `: ${plain(msg)}`}`];
}

/** 0 for an instruction of the message. Old transactions do not say who called an inner one: it stands below its instruction. */
const depthOf = ({ innerInstructionIndex, stackHeight }: ParsedInstruction): number =>
  innerInstructionIndex === null ? 0 : Math.max(1, (stackHeight ?? 2) - 1);

interface Rules {
  /** Before its first line, and before the lines below it. */
  readonly head: string;
  readonly body: string;
}

function rulesOf(depths: readonly number[], at: number): Rules {
  const depth = depths[at]!;
  /** Whether another instruction of a depth follows below the same caller. */
  const goesOn = (level: number): boolean => {
    const next = depths.slice(at + 1).findIndex((one) => one <= level);
    return next >= 0 && depths[at + 1 + next] === level;
  };
  const above = Array.from({ length: Math.max(0, depth - 1) }, (_, level) => (goesOn(level + 1) ? '│  ' : '   ')).join(
    '',
  );
  const own = depth === 0 ? '' : goesOn(depth) ? '├─ ' : '└─ ';
  const below = depth === 0 ? '' : goesOn(depth) ? '│  ' : '   ';
  const hasCalls = (depths[at + 1] ?? 0) > depth;
  return { head: above + own, body: `${above}${below}${hasCalls ? '│  ' : '   '}` };
}

function instructionLines(one: ParsedInstruction, { head, body }: Rules): readonly string[] {
  const { instructionIndex, innerInstructionIndex, programId, programName, summary, decoded, call } = one;
  const number = `${instructionIndex + 1}${innerInstructionIndex === null ? '' : `.${innerInstructionIndex + 1}`}`;
  const known = `${plain(programName ?? programId)}${call === null ? '' : `.${plain(call.name)}`}`;
  const name = programName === null ? known : `${known}${call === null ? ' ' : '  '}${programId}`;
  const state = decoded !== null ? '' : call === null ? ': not decoded' : ': arguments not decoded';
  const facts = [
    ...(decoded === null ? [['data', cut(one.rawData)] as const] : argumentsOf(decoded.args)),
    ...(call?.accounts.map(accountOf) ?? one.rawAccounts.map((account, at) => [`account ${at + 1}`, account] as const)),
  ];
  const shown = facts.slice(0, MAX_LINES);
  const width = Math.min(32, Math.max(0, ...shown.map(([label]) => label.length)));
  return [
    `${head}${number} ${name}${state}`,
    ...(summary === null ? [] : [`${body}${plain(summary.description)}`]),
    ...shown.map(([label, value]) => `${body}${label.padEnd(width)}  ${value}`),
    ...(facts.length > shown.length ? [`${body}… ${facts.length - shown.length} more`] : []),
  ];
}

type Fact = readonly [label: string, value: string];

const accountOf = ({
  name,
  pubkey,
  isSigner,
  isWritable,
}: NonNullable<ParsedInstruction['decoded']>['accounts'][number]): Fact => {
  const rights = [...(isSigner ? ['signer'] : []), ...(isWritable ? ['writable'] : [])].join(', ');
  return [plain(name), `${pubkey}${rights === '' ? '' : `  ${rights}`}`];
};

/** Arguments with their paths; what is nested deeper than two levels is JSON. */
function argumentsOf(args: unknown, path = '', depth = 0): readonly Fact[] {
  if (typeof args === 'object' && args !== null && !Array.isArray(args) && depth < 2) {
    const entries = Object.entries(args);
    if (entries.length > 0)
      return entries.flatMap(([name, value]) =>
        argumentsOf(value, path === '' ? plain(name) : `${path}.${plain(name)}`, depth + 1),
      );
  }
  if (path === '') return [];
  return [[path, cut(typeof args === 'string' ? args : (JSON.stringify(args, exact) ?? ''))]];
}

function movedLines({ nativeTransfers, tokenTransfers }: ParsedTransaction): readonly string[] {
  const lines = [
    ...nativeTransfers.map(
      ({ fromUserAccount, toUserAccount, amount }) =>
        `${solAmount(amount)} SOL  ${sides(fromUserAccount, toUserAccount)}`,
    ),
    ...tokenTransfers.map(
      ({ fromUserAccount, toUserAccount, rawTokenAmount, decimals, mint }) =>
        `${plainAmount(BigInt(rawTokenAmount), decimals)} of ${mint}  ${sides(fromUserAccount, toUserAccount)}`,
    ),
  ];
  const shown = lines.slice(0, MAX_LINES);
  if (lines.length === 0) return [];
  const more = lines.length > shown.length ? [`  … ${lines.length - shown.length} more`] : [];
  return ['', 'moved', ...shown.map((line) => `  ${line}`), ...more];
}

const sides = (from: string | null, to: string | null): string => `${from ?? '(minted)'} -> ${to ?? '(burned)'}`;

const exact = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value);

/** Without characters that a terminal interprets, or that change the order of what is read. */
const plain = (text: string): string => text.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}]/gu, '?');

function cut(text: string): string {
  const shown = plain(text);
  return shown.length <= MAX_TEXT ? shown : `${shown.slice(0, MAX_TEXT)}… (${shown.length} characters)`;
}
