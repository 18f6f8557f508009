import { type Bank, seal, skip } from './ledger/bank.ts';
import { DEFAULTS, type LocalChainOptions } from './options.ts';
import { createSeededRandom } from './seeded-random.ts';

/** Seals a block every `slotMs`, or leaves the slot out by seeded chance. Answers what stops it. */
export function startSlotTimer(bank: Bank, options: LocalChainOptions): () => void {
  const { slotMs } = { ...DEFAULTS, ...options };
  if (slotMs === 0) return () => undefined;
  const chance = createSeededRandom(options.skipEvery?.seed ?? 0);
  const rate = options.skipEvery?.rate ?? 0;
  const timer = setInterval(() => {
    if (bank.pending.records.length === 0 && chance() < rate) skip(bank, 1);
    else seal(bank);
  }, slotMs);
  timer.unref();
  return () => clearInterval(timer);
}
