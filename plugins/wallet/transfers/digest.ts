import type { MintFacts } from '../../../src/ports/token-facts.ts';
import { uiAmount } from '../../../src/solana/accounts/token/ui-amount.ts';
import { WRAPPED_SOL_MINT } from '../../../src/solana/address/known-programs.ts';
import type { Digest, DigestKind } from '../tracking/digests.ts';
import { withheldFee } from './fee.ts';
import { type TransferRow, transferRows } from './rows.ts';

/** The transfers of a transaction to and from a wallet. */
export interface TransfersDigest extends Digest {
  readonly slot: number;
  /** Unix seconds; null where the block has none. */
  readonly time: number | null;
  readonly transfers: readonly Transfer[];
}

export interface Transfer extends TransferRow {
  /** Null where it takes the facts of its mint, or the time of another block. */
  readonly plain: Around | null;
}

/** An element as JSON, before and behind the symbol: a name may change. */
type Around = readonly [before: string, behind: string];

const ROW_BYTES = 400;

export const transfersDigest: DigestKind<TransfersDigest> = {
  name: 'm',
  make({ signature, slot, time, tx, block }, { address }) {
    const of = { signature, slot };
    const isPlain = (row: TransferRow) => time !== null && row.decimals !== null && !row.isFeeUnknown;
    const transfers = transferRows(tx, block, address).map((row) => ({
      ...row,
      plain: isPlain(row) ? around(of, row, time, null) : null,
    }));
    return { ...of, time, transfers };
  },
  bytesOf: ({ signature, transfers }) =>
    transfers.reduce((sum, { plain }) => sum + ROW_BYTES + (plain?.join('').length ?? 0), signature.length),
};

/** An element as JSON. `facts` null: nothing is known of its mint. */
export function transferText(
  digest: TransfersDigest,
  transfer: Transfer,
  time: number | null,
  facts: MintFacts | null,
): string {
  const isScaled = facts !== null && facts.scale !== null;
  const [before, behind] = (isScaled ? null : transfer.plain) ?? around(digest, transfer, time, facts);
  const symbol = transfer.mint === WRAPPED_SOL_MINT ? 'SOL' : (facts?.symbol ?? null);
  return before + JSON.stringify(symbol) + behind;
}

function around(
  { signature, slot }: Pick<TransfersDigest, 'signature' | 'slot'>,
  row: TransferRow,
  time: number | null,
  facts: MintFacts | null,
): Around {
  const { direction, counterparty, mint } = row;
  const decimals = row.decimals ?? facts?.decimals ?? 0;
  const withheld = row.isFeeUnknown ? withheldFee(row.amount, facts?.transferFee ?? null, slot) : 0n;
  const raw = row.amount - withheld;
  const amount = Number(uiAmount(raw, decimals, facts?.scale ?? null, time ?? 0));
  const before = JSON.stringify({ signature, timestamp: time, direction, counterparty, mint });
  const behind = JSON.stringify({ amount, amountRaw: raw.toString(), decimals });
  return [`${before.slice(0, -1)},"symbol":`, `,${behind.slice(1)}`];
}
