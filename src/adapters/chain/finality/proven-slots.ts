import type { BlockHeader } from '../../../ports/block.ts';
import type { CertificateResult, VerifiedSlot } from '../../../ports/chain.ts';
import type { VerifiedBlock } from '../../../solana/finality/certificate.ts';
import type { BlockFooter } from '../../../solana/finality/footer.ts';

interface ProvenSlotsParts {
  readonly counted: (result: CertificateResult) => void;
  /** A certificate that holds contradicts what was released. */
  readonly contradicted: (slot: number, reason: string) => void;
}

const MAX_RECENT = 16;
/** Released headers that are remembered, about ten minutes of slots. */
const MAX_RELEASED = 4_096;
/** Verified blocks that were not released yet. */
const MAX_AHEAD = 256;
/** Blocks whose certificates hold, beside those that were released. */
export class ProvenSlots {
  /** Verified, highest first. */
  recent: readonly VerifiedSlot[] = [];
  private readonly parts: ProvenSlotsParts;
  private readonly released = createReleasedSlots();
  /** Block ids of what was verified, by slot. */
  private readonly known = new Map<number, string>();
  private readonly ahead = new Map<number, VerifiedBlock>();

  constructor(parts: ProvenSlotsParts) {
    this.parts = parts;
  }

  /** Several footers may carry the certificate of one block. */
  isKnown({ certificate }: BlockFooter): boolean {
    if (certificate === null) return true;
    const { blockId } = certificate.notarization ?? certificate.final;
    return this.known.get(Number(certificate.slot)) === idText(blockId);
  }

  /** Compares a proven block with what was released. */
  add(block: VerifiedBlock): void {
    const { ahead, parts } = this;
    const place = this.released.placeOf(block.slot);
    if (place === 'ahead') {
      ahead.set(block.slot, block);
      for (const slot of ahead.keys()) if (ahead.size > MAX_AHEAD) ahead.delete(slot);
    } else if (place === 'unknown') parts.counted('unfollowed');
    else if (place === 'skipped')
      parts.contradicted(block.slot, 'it holds, and the blocks that were followed have none in its slot');
    else this.keep(block);
  }

  noteReleased(header: BlockHeader): void {
    this.released.add(header);
    for (const [slot, block] of this.ahead)
      if (slot <= header.slot) {
        this.ahead.delete(slot);
        this.add(block);
      }
  }

  private keep({ slot, rounds, stake, totalStake, blockId }: VerifiedBlock): void {
    const { known } = this;
    this.parts.counted('verified');
    known.set(slot, idText(blockId));
    for (const old of known.keys()) if (known.size > MAX_RELEASED) known.delete(old);
    const verified = { slot, stakePercent: Number((stake * 10_000n) / totalStake) / 100, rounds };
    this.recent = [verified, ...this.recent.filter((one) => one.slot !== slot)]
      .sort((a, b) => b.slot - a.slot)
      .slice(0, MAX_RECENT);
  }
}

const idText = (blockId: Uint8Array): string => Buffer.from(blockId).toString('hex');

/** The newest released slots of one branch. */
function createReleasedSlots() {
  /** Ascending; each is the child of the one before it, but after a gap. */
  const slots: { readonly slot: number; readonly parentSlot: number }[] = [];
  return {
    add({ slot, parentSlot }: BlockHeader): void {
      // What a fork has replaced.
      while (slots.length > 0 && slots.at(-1)!.slot > parentSlot) slots.pop();
      slots.push({ slot, parentSlot });
      if (slots.length > MAX_RELEASED) slots.shift();
    },
    placeOf(slot: number): 'released' | 'skipped' | 'ahead' | 'unknown' {
      const last = slots.at(-1);
      if (last === undefined || slot > last.slot) return 'ahead';
      const at = slots.findLast((one) => one.parentSlot < slot);
      if (at === undefined || at.slot < slot) return 'unknown';
      return at.slot === slot ? 'released' : 'skipped';
    },
  };
}
