import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { decode32 } from '../../../src/lib/base58.ts';
import { EXIT } from '../../../src/lib/coded-error.ts';
import { isPlainObject } from '../../../src/lib/json.ts';
import { type Clock, CodedError, type Log, type Metrics, messageOf } from '../../../src/plugin/plugin.ts';
import {
  ACCOUNT_COMPRESSION_PROGRAM,
  ASSOCIATED_TOKEN_PROGRAM,
  BUBBLEGUM_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  CORE_PROGRAM,
  JUPITER_V2,
  JUPITER_V6,
  LOOKUP_TABLE_PROGRAM,
  MAGIC_EDEN_V2,
  MEMO_V1_PROGRAM,
  MEMO_V3_PROGRAM,
  MEMO_V4_PROGRAM,
  METADATA_PROGRAM,
  NAME_PROGRAM,
  NOOP_PROGRAM,
  ORCA_WHIRLPOOLS,
  RAYDIUM_AMM_V4,
  STAKE_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  VOTE_PROGRAM,
} from '../../../src/solana/programs.ts';
import { WALLET_ERRORS, type WalletConfig } from '../config.ts';

export interface AddressLabels {
  find(address: string): AddressLabel | null;
  /** Reads all files. Errors: WALLET_LABELS_UNREADABLE, exit 78. */
  start(): Promise<void>;
  stop(): void;
}

interface LabelsParts {
  readonly config: Pick<WalletConfig['identity'], 'files' | 'reloadMs' | 'maxLabels'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Conflicts that are logged individually per load. */
const LOGGED_CLASHES = 10;

/** The built-in labels and those of the operator's files, reloaded when a file changes. */
export function createLabels(parts: LabelsParts): AddressLabels {
  const { config, clock, log, metrics } = parts;
  const malformedLines = metrics.counter('label_lines_malformed_total', 'malformed lines of label files');
  const failures = metrics.counter('label_reload_failures_total', 'changed label files that could not be read');
  let found: ReadonlyMap<string, AddressLabel> = byAddress(programLabels());
  metrics.observe('labels', 'addresses that have a label', () => found.size);
  let seen = '';
  let cancel = (): void => {};
  let stopped = false;

  async function read(paths: readonly string[], state: string): Promise<void> {
    const next = new Map(byAddress(programLabels()));
    let [clashes, room] = [0, config.maxLabels];
    for (const path of paths) {
      const file = await readLabelFile(path, room);
      room -= file.labels.length;
      for (const label of file.labels) {
        const before = next.get(label.address);
        if (before !== undefined && before.name !== label.name && ++clashes <= LOGGED_CLASHES)
          log.warn(clashFacts(before, label), 'two labels of one address; the later one is used');
        next.set(label.address, label);
      }
      malformedLines.add(file.malformed);
      const { malformed, firstMalformedLine, leftOut } = file;
      if (malformed > 0) log.warn({ path, malformed, firstMalformedLine }, 'malformed lines in a label file');
      if (leftOut > 0) log.warn({ path, leftOut }, 'more labels than wallet.identity.maxLabels');
    }
    found = next;
    seen = state;
    log.info({ labels: next.size, files: paths.length, clashes }, 'labels read');
  }

  async function look(): Promise<void> {
    try {
      const paths = config.files;
      const state = await stateOf(paths);
      if (state !== seen) await read(paths, state);
    } catch (error) {
      failures.add();
      log.warn({ error: messageOf(error) }, 'a label file cannot be read; the previous labels stay in use');
    }
  }

  function watch(): void {
    cancel = clock.timeout(config.reloadMs, async () => {
      await look();
      if (!stopped) watch();
    });
  }

  return {
    find: (address) => found.get(address) ?? null,
    async start() {
      const paths = config.files;
      try {
        if (paths.length > 0) await read(paths, await stateOf(paths));
      } catch (error) {
        throw new CodedError(
          'WALLET_LABELS_UNREADABLE',
          `${WALLET_ERRORS.WALLET_LABELS_UNREADABLE}: ${messageOf(error)}`,
          { exitCode: EXIT.config, cause: error },
        );
      }
      watch();
    },
    stop() {
      stopped = true;
      cancel();
    },
  };
}

/** Changes when one of the files changes. */
async function stateOf(paths: readonly string[]): Promise<string> {
  const stats = await Promise.all(paths.map((path) => stat(path, { bigint: true })));
  return stats.map(({ ino, size, mtimeNs }, at) => `${paths[at]}:${ino}:${size}:${mtimeNs}`).join();
}

function byAddress(labels: readonly AddressLabel[]): ReadonlyMap<string, AddressLabel> {
  return new Map(labels.map((label) => [label.address, label]));
}

function clashFacts(before: AddressLabel, label: AddressLabel) {
  const { address } = label;
  return { address, name: label.name, source: label.source, earlierName: before.name, earlierSource: before.source };
}

/** A label of an address, from the operator or built in. */
export interface AddressLabel {
  /** Base58. */
  readonly address: string;
  readonly type: string;
  readonly name: string;
  readonly category: string;
  readonly tags: readonly string[];
  readonly website?: string;
  /** Source of the label; never returned. */
  readonly source: string;
}

const MAX_TEXT = 512;
const MAX_TAGS = 64;

/** A line of a label file. Null when it is malformed or names no source. */
export function readLabel(line: string): AddressLabel | null {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return null;
  }
  if (!isPlainObject(value)) return null;
  const { address, type, name, category, tags = [], website, source } = value;
  const texts = [type, name, category, source];
  if (typeof address !== 'string' || decode32(address) === null || !texts.every(isText)) return null;
  if (!Array.isArray(tags) || tags.length > MAX_TAGS || !tags.every(isText)) return null;
  if (website !== undefined && website !== null && !isText(website)) return null;
  return {
    address,
    type: type as string,
    name: name as string,
    category: category as string,
    tags: tags as string[],
    ...(isText(website) ? { website } : {}),
    source: source as string,
  };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_TEXT;
}

/** Address, name, category. Only programs: labels of persons and companies come from operators. */
const PROGRAMS: readonly (readonly [address: string, name: string, category: string])[] = [
  [SYSTEM_PROGRAM, 'System Program', 'Native'],
  [TOKEN_PROGRAM, 'Token Program', 'Native'],
  [TOKEN_2022_PROGRAM, 'Token-2022 Program', 'Native'],
  [ASSOCIATED_TOKEN_PROGRAM, 'Associated Token Program', 'Native'],
  [STAKE_PROGRAM, 'Stake Program', 'Native'],
  [VOTE_PROGRAM, 'Vote Program', 'Native'],
  [COMPUTE_BUDGET_PROGRAM, 'Compute Budget', 'Native'],
  [LOOKUP_TABLE_PROGRAM, 'Address Lookup Table', 'Native'],
  [MEMO_V1_PROGRAM, 'Memo v1', 'Tools'],
  [MEMO_V3_PROGRAM, 'Memo v2', 'Tools'],
  [MEMO_V4_PROGRAM, 'Memo v4', 'Tools'],
  [METADATA_PROGRAM, 'Token Metadata', 'NFT'],
  [CORE_PROGRAM, 'Core', 'NFT'],
  [BUBBLEGUM_PROGRAM, 'Bubblegum', 'Compression'],
  [ACCOUNT_COMPRESSION_PROGRAM, 'Account Compression', 'Compression'],
  [NOOP_PROGRAM, 'Noop', 'Compression'],
  [JUPITER_V6, 'Jupiter v6', 'Aggregator'],
  [JUPITER_V2, 'Jupiter v2', 'Aggregator'],
  [RAYDIUM_AMM_V4, 'Raydium AMM v4', 'Swap'],
  [ORCA_WHIRLPOOLS, 'Orca Whirlpools', 'Swap'],
  [MAGIC_EDEN_V2, 'Magic Eden v2', 'NFT'],
  [NAME_PROGRAM, 'SPL Name Service', 'Infrastructure'],
];

/** Well-known programs. */
function programLabels(): readonly AddressLabel[] {
  return PROGRAMS.map(([address, name, category]) => ({
    address,
    type: 'program',
    name,
    category,
    tags: [category],
    source: 'built in',
  }));
}

interface LabelFile {
  readonly labels: readonly AddressLabel[];
  /** Malformed lines; empty lines and comments (`#`) do not count. */
  readonly malformed: number;
  /** Number of the first of them, from 1, or null. */
  readonly firstMalformedLine: number | null;
  /** Labels beyond the limit. */
  readonly leftOut: number;
}

/** Reads a label file line by line, so that a large one does not block the event loop. Rejects when it cannot be read. */
async function readLabelFile(path: string, limit: number): Promise<LabelFile> {
  const labels: AddressLabel[] = [];
  let [malformed, leftOut, number] = [0, 0, 0];
  let firstMalformedLine: number | null = null;
  const lines = createInterface({ input: createReadStream(path, 'utf8'), crlfDelay: Number.POSITIVE_INFINITY });
  for await (const line of lines) {
    number += 1;
    const text = (number === 1 ? line.replace(/^\ufeff/, '') : line).trim();
    if (text === '' || text.startsWith('#')) continue;
    const label = readLabel(text);
    if (label === null) {
      malformed += 1;
      firstMalformedLine ??= number;
    } else if (labels.length >= limit) {
      leftOut += 1;
    } else {
      labels.push(label);
    }
  }
  return { labels, malformed, firstMalformedLine, leftOut };
}
