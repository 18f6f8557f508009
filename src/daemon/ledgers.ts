import { join } from 'node:path';
import { ledgerThreads } from '../config/core.ts';
import { createLedgerMeter, createLedgerReader, type Ledger, openLedger } from '../ledger/index.ts';
import type { ChainId } from '../ports/chain.ts';
import type { UpstreamState } from '../ports/upstream.ts';
import type { Assembly } from './assemble.ts';
import type { DaemonParts } from './parts.ts';

/** Where the ledger of a chain is read and written. */
type LedgerParts = Pick<DaemonParts, 'clock' | 'log'>;

const folderOf = (dataDir: string, chain: ChainId) => join(dataDir, 'ledger', chain);

/** Until this process writes the ledger itself it reads the one of another thread or process. */
export function readLedgers(assembly: Assembly, { clock, log }: LedgerParts): void {
  const { core } = assembly.config;
  if (core.ledger.retain.hours === 0) return;
  for (const { setup, pool } of assembly.chains) {
    const damaged = assembly.metrics
      .scope(setup.id === 'main' ? 'ledger_reader' : `ledger_reader_${setup.id}`)
      .counter('blocks_damaged_total', 'reads of blocks that are damaged on disk, outside the thread that writes them');
    const isPassed = (slot: number) => pool.states().some((upstream) => isAbove(upstream, slot));
    const reader = { dir: folderOf(core.dataDir, setup.id), chain: setup.id, clock, log, damaged: () => damaged.add() };
    assembly.ledgers.set(setup.id, createLedgerReader({ ...reader, index: core.ledger.index, isPassed }));
  }
}

/** Opens the ledger of a chain for writing; from then on this process reads that one. */
export function ledgerOpener(assembly: Assembly, { clock, log }: LedgerParts, chain: ChainId): () => Promise<Ledger> {
  const { core } = assembly.config;
  const { hours, bytes } = core.ledger.retain;
  const meter = createLedgerMeter(assembly.metrics.scope(chain === 'main' ? 'ledger' : `ledger_${chain}`));
  return async () => {
    const ledger = await openLedger({
      dir: folderOf(core.dataDir, chain),
      chain,
      clock,
      log,
      meter,
      index: core.ledger.index,
      retainHours: hours,
      retainBytes: bytes,
      threads: ledgerThreads(core),
      heldAbove: assembly.ledgerHolds.get(chain) ?? [],
    });
    assembly.ledgers.set(chain, ledger);
    for (const run of assembly.ledgerOpened.get(chain) ?? []) run(ledger);
    return ledger;
  };
}

/** What an upstream said longer ago proves nothing about the chain of now. */
const RECENT_ANSWER_MS = 30_000;

const isAbove = ({ slot: tip, inService, silentMs }: UpstreamState, slot: number): boolean =>
  inService && tip !== null && tip > slot && silentMs < RECENT_ANSWER_MS;
