import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { type Clock, CodedError, type Log, type Metrics, messageOf } from '../../../../src/kernel/plugin.ts';
import { WALLET_ERRORS } from '../../errors.ts';
import type { AddressLabel } from './label.ts';
import { programLabels } from './program-labels.ts';
import { readLabelFile } from './read-file.ts';

export interface Labels {
  find(address: string): AddressLabel | null;
  /** Reads all files. Errors: WALLET_LABELS_UNREADABLE, exit 78. */
  start(): Promise<void>;
  stop(): void;
}

export interface LabelsParts {
  readonly files: readonly string[];
  readonly reloadMs: number;
  readonly maxLabels: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

const CONFIG = 78;
/** Clashes that are logged one by one after a reading. */
const LOGGED_CLASHES = 10;

/** The labels of the program and of the operator's files, read again when one of these changes. */
export function createLabels(parts: LabelsParts): Labels {
  const { clock, log, metrics } = parts;
  const paths = parts.files.map((file) => resolve(file));
  const malformedLines = metrics.counter('label_lines_malformed_total', 'lines of label files that are no label');
  const failures = metrics.counter('label_reload_failures_total', 'changed label files that could not be read');
  let found: ReadonlyMap<string, AddressLabel> = byAddress(programLabels());
  metrics.observe('labels', 'addresses that have a label', () => found.size);
  let seen = '';
  let cancel = (): void => {};
  let stopped = false;

  async function read(state: string): Promise<void> {
    const next = new Map(byAddress(programLabels()));
    let [clashes, room] = [0, parts.maxLabels];
    for (const path of paths) {
      const file = await readLabelFile(path, room);
      room -= file.labels.length;
      for (const label of file.labels) {
        const before = next.get(label.address);
        if (before !== undefined && before.name !== label.name && ++clashes <= LOGGED_CLASHES)
          log.warn(clashFacts(before, label), 'two labels of one address: the later one counts');
        next.set(label.address, label);
      }
      malformedLines.add(file.malformed);
      const { malformed, firstMalformedLine, leftOut } = file;
      if (malformed > 0) log.warn({ path, malformed, firstMalformedLine }, 'lines of a label file are no labels');
      if (leftOut > 0) log.warn({ path, leftOut }, 'more labels than wallet.identity.maxLabels');
    }
    found = next;
    seen = state;
    log.info({ labels: next.size, files: paths.length, clashes }, 'labels read');
  }

  async function look(): Promise<void> {
    try {
      const state = await stateOf(paths);
      if (state !== seen) await read(state);
    } catch (error) {
      failures.add();
      log.warn({ error: messageOf(error) }, 'a label file cannot be read; the labels read before stay');
    }
  }

  function watch(): void {
    cancel = clock.timeout(parts.reloadMs, async () => {
      await look();
      if (!stopped) watch();
    });
  }

  return {
    find: (address) => found.get(address) ?? null,
    async start() {
      if (paths.length === 0) return;
      try {
        await read(await stateOf(paths));
      } catch (error) {
        throw new CodedError(
          'WALLET_LABELS_UNREADABLE',
          `${WALLET_ERRORS.WALLET_LABELS_UNREADABLE}: ${messageOf(error)}`,
          { exitCode: CONFIG, cause: error },
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

/** Changes when one of the files does. */
async function stateOf(paths: readonly string[]): Promise<string> {
  const stats = await Promise.all(paths.map((path) => stat(path, { bigint: true })));
  return stats.map(({ ino, size, mtimeNs }) => `${ino}:${size}:${mtimeNs}`).join();
}

function byAddress(labels: readonly AddressLabel[]): ReadonlyMap<string, AddressLabel> {
  return new Map(labels.map((label) => [label.address, label]));
}

function clashFacts(before: AddressLabel, label: AddressLabel) {
  const { address } = label;
  return { address, name: label.name, source: label.source, earlierName: before.name, earlierSource: before.source };
}
