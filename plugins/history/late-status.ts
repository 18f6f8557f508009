/** What an upstream that is behind says about transactions whose slots are known to be final here. */
import { arrayItems } from '../../src/lib/json.ts';
import { RpcError } from '../../src/plugin/plugin.ts';
import type { PastReader } from '../../src/ports/ledger.ts';

/** Slot of a status that is confirmed and not final; null for any other. */
function confirmedSlot(status: unknown): number | null {
  const { confirmationStatus, slot } = (status ?? {}) as { confirmationStatus?: unknown; slot?: unknown };
  return confirmationStatus === 'confirmed' && typeof slot === 'number' ? slot : null;
}

/**
 * Statuses of an upstream, `finalized` up to a final slot: what two thirds of the stake have confirmed is part of the final branch. Where
 * that branch is known to have no block in the slot, the upstream is on another one. Errors: -32002.
 */
export async function asFinal(
  statuses: readonly unknown[],
  finalSlot: number,
  past: Pick<PastReader, 'states'> | null,
): Promise<readonly unknown[]> {
  return await Promise.all(
    statuses.map(async (status) => {
      const slot = confirmedSlot(status);
      if (slot === null || slot > finalSlot) return status;
      // An archive that cannot be read contradicts nothing.
      const at = (await past?.states(slot, slot).catch(() => null)) ?? null;
      if (at !== null && at.blocks.length + at.unknown.length === 0)
        throw new RpcError('unavailable', {
          details: `The Solana upstream has a block in slot ${slot}, which is skipped in the final branch`,
          retryAfterS: 1,
        });
      return Object.assign({}, status, { confirmationStatus: 'finalized', confirmations: null });
    }),
  );
}

const CONFIRMED = /("confirmationStatus":\s*)"confirmed"/;

/** A list of signatures of an upstream, whose rows up to a final slot are `finalized`; null where nothing changes. */
export function rowsAsFinal(text: string, finalSlot: number): string | null {
  if (!CONFIRMED.test(text)) return null;
  const bytes = Buffer.from(text);
  const items = arrayItems(bytes);
  if (items === null) return null;
  const rows = items.map(({ start, end }) => bytes.toString('utf8', start, end));
  const shown = rows.map((row) => {
    const { slot } = JSON.parse(row) as { readonly slot?: unknown };
    return typeof slot === 'number' && slot <= finalSlot ? row.replace(CONFIRMED, '$1"finalized"') : row;
  });
  return shown.every((row, at) => row === rows[at]) ? null : `[${shown.join()}]`;
}
