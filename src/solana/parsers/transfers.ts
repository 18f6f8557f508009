import { plainAmount } from '../accounts/amounts.ts';
import { u32At } from '../movements/instructions.ts';
import { nativeChange, type TokenMove } from '../movements/movement.ts';
import {
  ASSOCIATED_TOKEN_PROGRAM,
  PROGRAM_ADDRESSES as AT,
  BUBBLEGUM_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  DEVNET,
  JUPITER_V6,
  MEMO_PROGRAMS,
  METADATA_PROGRAM,
  PHANTOM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from '../programs.ts';
import { type Parsed, solAmount, type TransactionParser, type TransactionView, type Words } from './parser.ts';

export const systemTransfer: TransactionParser = {
  name: 'system-transfer',
  programs: [SYSTEM_PROGRAM],
  parse(view) {
    const isAny = view.natives.some(
      ({ inner, kind }) => inner < 0 && (kind === 'transfer' || kind === 'transferWithSeed'),
    );
    if (!isAny || !isPlain(view)) return null;
    return { type: 'TRANSFER', source: 'SYSTEM_PROGRAM', describe: () => describeLamports(view) };
  },
};

function describeLamports(view: TransactionView): string {
  const moves = view.natives.filter(({ kind }) => kind !== 'closeWrapped');
  const [first] = moves;
  if (first === undefined) return '';
  const isFromOne = moves.every(({ from }) => from === first.from);
  const isToOne = moves.every(({ to }) => to === first.to);
  if (isFromOne && first.from === 0 && !isToOne) {
    // Includes the fee and everything that left the payer's account.
    const total = solAmount(-nativeChange(view.tx, 0));
    return `${view.feePayer} transferred a total ${total} SOL to multiple accounts.`;
  }
  // Where others gave something too, the first movement represents all.
  const amount = isFromOne && isToOne ? moves.reduce((sum, move) => sum + move.amount, 0n) : first.amount;
  return `${view.account(first.from)} transferred ${solAmount(amount)} SOL to ${view.account(first.to)}.`;
}

const UPGRADE = 3;
const FINALIZE = 1;

export const loader: TransactionParser = {
  name: 'loader',
  programs: [AT.BPF_UPGRADEABLE_LOADER, AT.BPF_LOADER],
  parse({ outer }) {
    const has = (program: string, tag: number) =>
      outer.some(({ programId, data }) => programId === program && u32At(data, 0) === tag);
    if (has(AT.BPF_UPGRADEABLE_LOADER, UPGRADE))
      return { type: 'UPGRADE_PROGRAM_INSTRUCTION', source: 'BPF_UPGRADEABLE_LOADER' };
    return has(AT.BPF_LOADER, FINALIZE) ? { type: 'FINALIZE_PROGRAM_INSTRUCTION', source: 'BPF_LOADER' } : null;
  },
};

const SOURCE = 'SOLANA_PROGRAM_LIBRARY';
const PROGRAMS = [TOKEN_PROGRAM, TOKEN_2022_PROGRAM];

const isTransfer = ({ kind }: TokenMove): boolean =>
  kind === 'transfer' || kind === 'transferChecked' || kind === 'transferWithFee';

/** The first movement of a kind requested by an instruction of the message. */
const firstOuter = ({ tokens }: TransactionView, is: (move: TokenMove) => boolean): TokenMove | undefined =>
  tokens.find((move) => move.inner < 0 && is(move));

/** A wallet's program in addition to an ordinary transfer. */
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

/** The first burn represents all. */
export function describeBurn(view: TransactionView): string {
  const burn = view.tokens.find(({ kind }) => kind === 'burn');
  if (burn === undefined) return '';
  return `${view.key(burn.sourceOwner)} burned ${plainAmount(burn.amount, burn.decimals ?? 0)} ${view.key(burn.mint)}.`;
}

export function describeMint(view: TransactionView): string {
  return `${view.feePayer} minted ${new Set(view.tokens.map(({ mint }) => mint)).size} tokens.`;
}

/** Programs that may occur in a transaction that is classified by its transfers. */
const KNOWN: ReadonlySet<string> = new Set([
  SYSTEM_PROGRAM,
  TOKEN_PROGRAM,
  TOKEN_2022_PROGRAM,
  ASSOCIATED_TOKEN_PROGRAM,
  METADATA_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  ...MEMO_PROGRAMS,
  BUBBLEGUM_PROGRAM,
  JUPITER_V6,
  AT.STAKE_PROGRAM,
  AT.MAGIC_EDEN_V2,
  AT.JUPITER_V1,
  AT.JUPITER_V2,
  AT.JUPITER_V3,
  AT.JUPITER_V4,
  AT.RAYDIUM_LIQUIDITY_POOL_V4,
  DEVNET.RAYDIUM_LIQUIDITY_POOL_V4,
  AT.CANDY_MACHINE_V1,
  AT.CANDY_MACHINE_V2,
  AT.CANDY_MACHINE_V3,
  AT.CANDY_MACHINE_CORE_V3,
  AT.BPF_LOADER,
  AT.BPF_UPGRADEABLE_LOADER,
]);

/**
 * Whether only these programs act: an instruction with accounts of any other program may mean anything.
 * One without accounts can only log.
 */
function isPlain(view: TransactionView, also: readonly string[] = []): boolean {
  return view.outer.every(
    ({ programId, accounts }) => accounts.length === 0 || KNOWN.has(programId) || also.includes(programId),
  );
}

/** The first token transfer represents all. */
export function describeTransfer(view: TransactionView, words: Words): string {
  const [first] = view.tokens;
  if (first === undefined) return '';
  const { amount, decimals } = first;
  const token = words.token(view.key(first.mint), decimals, amount);
  const [from, to] = [view.key(first.sourceOwner), view.key(first.destinationOwner)];
  return `${from} transferred ${plainAmount(amount, decimals ?? 0)} ${token} to ${to}.`;
}
