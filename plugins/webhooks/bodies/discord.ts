import type { EnhancedTransaction } from '../../../src/solana/parsers/enhance.ts';
import { solAmount } from '../../../src/solana/parsers/words.ts';

export interface DiscordOptions {
  /** With `{signature}` and `{cluster}`. */
  readonly explorerUrlTemplate: string;
  readonly cluster: 'mainnet-beta' | 'devnet';
}

interface Transfers {
  readonly nativeTransfers: readonly { amount: number | bigint; fromUserAccount: string; toUserAccount: string }[];
  readonly tokenTransfers: readonly {
    readonly fromUserAccount: string;
    readonly mint: string;
    readonly toUserAccount: string;
    readonly tokenAmount: number;
  }[];
}

const COLOR = 0x14f195;
const MAX_TRANSFERS = 5;
/** Discord refuses a message in which one of these is longer. */
const MAX = { title: 256, description: 4_096, field: 1_024 };
const MS_PER_SECOND = 1_000;

/** One embed of a Discord message. Ten of them stay below the 6,000 characters that a message may have in all only when most are short. */
export function discordEmbed(
  element: EnhancedTransaction,
  { explorerUrlTemplate, cluster }: DiscordOptions,
): Readonly<Record<string, unknown>> {
  const { type, source, description, signature } = element;
  const url = explorerUrlTemplate.replaceAll('{signature}', signature).replaceAll('{cluster}', cluster);
  return {
    title: cut(`${type.replaceAll('_', ' ')} on ${source}`, MAX.title),
    description: cut(description === '' ? signature : description, MAX.description),
    url,
    timestamp: new Date(Number(element['timestamp']) * MS_PER_SECOND).toISOString(),
    color: COLOR,
    fields: [
      { name: 'Signature', value: signature },
      { name: 'Fee payer', value: String(element['feePayer']) },
      { name: 'Fee', value: `${solAmount(Number(element['fee']))} SOL` },
      ...transfers(element as unknown as Transfers).map((value) => ({
        name: 'Transfer',
        value: cut(value, MAX.field),
      })),
    ],
  };
}

function transfers({ nativeTransfers, tokenTransfers }: Transfers): string[] {
  const native = nativeTransfers.map(
    ({ amount, fromUserAccount, toUserAccount }) =>
      `${solAmount(amount)} SOL from ${side(fromUserAccount)} to ${side(toUserAccount)}`,
  );
  const tokens = tokenTransfers.map(
    ({ fromUserAccount, mint, toUserAccount, tokenAmount }) =>
      `${tokenAmount} of ${mint} from ${side(fromUserAccount)} to ${side(toUserAccount)}`,
  );
  return [...native, ...tokens].slice(0, MAX_TRANSFERS);
}

const side = (account: string): string => (account === '' ? 'nobody' : account);

/** At most so many characters, and never half of one. */
function cut(text: string, length: number): string {
  if (text.length <= length) return text;
  const kept = text.slice(0, length - 1);
  return `${/[\ud800-\udbff]$/.test(kept) ? kept.slice(0, -1) : kept}…`;
}
