import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Format, Range } from '../../../packages/portable/index.ts';
import { createSystemClock } from '../../adapters/clock.ts';
import { createLog } from '../../adapters/log.ts';
import { createLedgerMeter, type Ledger, openLedger, verifyLedger } from '../../ledger/index.ts';
import { CodedError, EXIT } from '../../lib/coded-error.ts';
import type { AmountForm } from '../../lib/parquet-columns.ts';
import { createMetricsRegistry } from '../../runtime/metrics.ts';
import { type CliIo, type CommandValues, createProgress, type RunCommand } from '../command.ts';
import { loadCliConfig } from '../load-config.ts';
import { findRunFile } from '../running-daemon.ts';

/** A hundredth of an epoch. */
const SLOTS_PER_FILE = 4_320;
/** Lines of holes and refused blocks that are shown. */
const SHOWN = 20;
const MIB = 1_048_576;

// Imported only when blocks are exported or imported: `verify` does without it.
const loadPortable = async () => await import('../../../packages/portable/index.ts');

/** The ledger of the configuration, for one command. */
async function openFor(values: CommandValues, io: CliIo, isImport: boolean) {
  const { core } = await loadCliConfig(values, io);
  const chain = values['chain'] === 'devnet' ? 'devnet' : 'main';
  const dir = join(core.dataDir, 'ledger', chain);
  const { hours, bytes } = core.ledger.retain;
  if (isImport && findRunFile(core.dataDir) !== null)
    throw new CodedError('DAEMON_RUNNING', 'stop the daemon first', { exitCode: EXIT.temporary });
  if (isImport ? hours === 0 : !existsSync(dir))
    throw new CodedError('LEDGER_MISSING', isImport ? 'ledger.retain.hours is 0' : `there is no ledger in ${dir}`, {
      exitCode: EXIT.config,
    });
  const meter = createLedgerMeter(createMetricsRegistry().scope('ledger'));
  const log = createLog({ level: 'silent', format: 'json' });
  const ledger = await openLedger({
    dir,
    chain,
    log,
    meter,
    clock: createSystemClock(),
    retainHours: hours,
    retainBytes: bytes,
  } as const);
  // The ledger removes its oldest file once a complete one more would not fit.
  const roomBytes = () => bytes - 2 * Math.min(256 * MIB, Math.ceil(bytes / 8)) - meter.look().bytes;
  return { ledger, roomBytes };
}

function slotOf(values: CommandValues, name: string): number | null {
  const text = values[name];
  if (text === undefined) return null;
  const slot = Number(text);
  if (typeof text === 'string' && /^\d+$/.test(text) && Number.isSafeInteger(slot)) return slot;
  throw new CodedError('CLI_USAGE', `--${name} is no whole number`, { exitCode: EXIT.usage });
}

/** Without bounds: from the slot where the newest unbroken part begins to the newest final one. */
function rangeOf(values: CommandValues, ledger: Ledger): Range {
  const from = slotOf(values, 'from') ?? Math.max(0, ledger.firstOfRun());
  const to = slotOf(values, 'to') ?? ledger.finalSlot;
  if (ledger.finalSlot < 0)
    throw new CodedError('LEDGER_MISSING', 'the ledger has no final block yet', { exitCode: EXIT.config });
  if (from <= to) return [from, to];
  throw new CodedError('CLI_USAGE', `the range from ${from} to ${to} is empty`, { exitCode: EXIT.usage });
}

export const exportFiles: RunCommand = async (values, io) => {
  const slotsPerFile = slotOf(values, 'slots-per-file') ?? SLOTS_PER_FILE;
  if (slotsPerFile < 1) throw new CodedError('CLI_USAGE', '--slots-per-file is 0', { exitCode: EXIT.usage });
  const { format, amounts = 'integer' } = values as { format: Format; amounts?: AmountForm };
  if (format !== 'parquet' && values['amounts'] !== undefined)
    throw new CodedError('CLI_USAGE', '--amounts is for --format parquet', { exitCode: EXIT.usage });
  const { ledger } = await openFor(values, io, false);
  try {
    const range = rangeOf(values, ledger);
    const { exportBlocks } = await loadPortable();
    const output = resolve(io.cwd, String(values['output']));
    const total = range[1] - range[0] + 1;
    const progress = createProgress({ what: 'export', unit: 'slots', total, io, clock: createSystemClock() });
    const done = await exportBlocks({
      ledger,
      format,
      amounts,
      range,
      slotsPerFile,
      output,
      onSlot: (slot) => progress.update(slot - range[0] + 1),
    });
    progress.end();
    if (values['json'] === true) io.out(JSON.stringify({ from: range[0], to: range[1], ...done }));
    else {
      for (const [from, to] of done.holes.slice(0, SHOWN))
        io.out(
          `not written: ${from === to ? `slot ${from}` : `slots ${from} to ${to}`}, unknown to the ledger or damaged`,
        );
      if (done.holes.length > SHOWN) io.out(`and ${done.holes.length - SHOWN} more ranges`);
      const { blocks, transactions, parts, reused } = done;
      io.out(`${blocks} blocks, ${transactions} transactions in ${parts} parts, ${reused} of them from an earlier run`);
    }
    return done.holes.length === 0 ? EXIT.ok : EXIT.temporary;
  } finally {
    await ledger.close();
  }
};

export const importFiles: RunCommand = async (values, io) => {
  const { ledger, roomBytes } = await openFor(values, io, true);
  try {
    const { carFilesAt, importBlocks } = await loadPortable();
    const files = await carFilesAt(resolve(io.cwd, String(values['input'])));
    const progress = createProgress({ what: 'import', unit: 'blocks', total: null, io, clock: createSystemClock() });
    let read = 0;
    const onBlock = () => {
      read += 1;
      progress.update(read);
    };
    const done = await importBlocks({ ledger, roomBytes, files, onBlock });
    progress.end();
    if (values['json'] === true) io.out(JSON.stringify({ files: files.length, ...done }));
    else {
      for (const { slot, reason } of done.refused.slice(0, SHOWN)) io.out(`not added: block ${slot}: ${reason}`);
      if (done.refused.length > SHOWN) io.out(`and ${done.refused.length - SHOWN} more blocks`);
      io.out(`${done.blocks} blocks added from ${files.length} files, ${done.known} were there before`);
    }
    return done.refused.length === 0 ? EXIT.ok : EXIT.temporary;
  } finally {
    await ledger.close();
  }
};

export const verifyFiles: RunCommand = async (values, io) => {
  const { core } = await loadCliConfig(values, io);
  const dir = join(core.dataDir, 'ledger', String(values['chain'] ?? 'main'));
  if (!existsSync(dir))
    throw new CodedError('LEDGER_MISSING', `there is no ledger in ${dir}`, { exitCode: EXIT.config });
  const check = await verifyLedger(dir);
  if (values['json'] === true) io.out(JSON.stringify(check));
  else {
    for (const { path, place, slot } of check.faults)
      io.out(`damaged: ${slot === null ? 'unreadable bytes' : `block ${slot}`} at byte ${place} of ${path}`);
    const { files, blocks, bytes, faults } = check;
    io.out(`${blocks} sound blocks, ${faults.length} damaged places, ${bytes} bytes in ${files} files`);
  }
  return check.faults.length === 0 ? EXIT.ok : EXIT.temporary;
};
