import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../address/known-programs.ts';
import type { TokenMove } from '../../movements/movement.ts';
import type { Parsed, TransactionParser } from '../parser.ts';
import { isPlain } from '../plain.ts';
import { describeTransfer } from '../transfer-text.ts';
import type { TransactionView } from '../view.ts';
import { plainAmount } from '../words.ts';

const SOURCE = 'SOLANA_PROGRAM_LIBRARY';
const PHANTOM = 'DeJBGdMFa1uynnnKiwrVioatTuHmNLpyFKnmB5kaFdzQ';
const PROGRAMS = [TOKEN_PROGRAM, TOKEN_2022_PROGRAM];

const isTransfer = ({ kind }: TokenMove): boolean =>
  kind === 'transfer' || kind === 'transferChecked' || kind === 'transferWithFee';

/** The first movement of a kind that an instruction of the message asks for. */
const firstOuter = ({ tokens }: TransactionView, is: (move: TokenMove) => boolean): TokenMove | undefined =>
  tokens.find((move) => move.inner < 0 && is(move));

/** A wallet's own program beside an ordinary transfer. */
export const phantomTransfer: TransactionParser = {
  name: 'phantom-transfer',
  programs: [PHANTOM],
  parse(view) {
    if (!isPlain(view, [PHANTOM]) || firstOuter(view, isTransfer) === undefined) return null;
    return transferOf(view, 'PHANTOM');
  },
};

export const splBurn: TransactionParser = {
  name: 'spl-burn',
  programs: PROGRAMS,
  parse(view) {
    if (firstOuter(view, ({ kind }) => kind === 'burn') === undefined || !isPlain(view)) return null;
    return { type: 'BURN', source: SOURCE, describe: () => describeBurn(view) };
  },
};

export const splMint: TransactionParser = {
  name: 'spl-mint',
  programs: PROGRAMS,
  parse(view) {
    const mint = firstOuter(view, ({ kind }) => kind === 'mint');
    if (mint === undefined || !isPlain(view)) return null;
    const isNft = mint.amount === 1n && mint.decimals === 0;
    return isNft
      ? { type: 'NFT_MINT', source: SOURCE }
      : { type: 'TOKEN_MINT', source: SOURCE, describe: () => describeMint(view) };
  },
};

export const splTransfer: TransactionParser = {
  name: 'spl-transfer',
  programs: PROGRAMS,
  parse: (view) => (firstOuter(view, isTransfer) === undefined || !isPlain(view) ? null : transferOf(view, SOURCE)),
};

function transferOf(view: TransactionView, source: string): Parsed {
  return { type: 'TRANSFER', source, describe: (words) => describeTransfer(view, words) };
}

/** The first one stands for all. */
export function describeBurn(view: TransactionView): string {
  const burn = view.tokens.find(({ kind }) => kind === 'burn');
  if (burn === undefined) return '';
  return `${view.key(burn.sourceOwner)} burned ${plainAmount(burn.amount, burn.decimals ?? 0)} ${view.key(burn.mint)}.`;
}

export function describeMint(view: TransactionView): string {
  return `${view.feePayer} minted ${new Set(view.tokens.map(({ mint }) => mint)).size} tokens.`;
}
