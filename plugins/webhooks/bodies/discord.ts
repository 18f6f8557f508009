import type { EnhancedTransaction } from '../../../src/solana/parsers/enhance.ts';
import { solAmount } from '../../../src/solana/parsers/words.ts';

export interface DiscordOptions {
  /** With `{signature}` and `{cluster}`. */
  readonly explorerUrlTemplate: string;
  /** What the page calls the chain: `mainnet-beta`, `devnet`, or `custom` with the address of a local chain. */
  readonly cluster: string;
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
/** What all embeds of a message may say together. */
export const MAX_MESSAGE_CHARACTERS = 6_000;
const MS_PER_SECOND = 1_000;

interface Embed {
  readonly title: string;
  readonly description: string;
  readonly fields: readonly { readonly name: string; readonly value: string }[];
}

/** The characters of a message as Discord counts them, or more: those of a surrogate pair are two here. */
export function messageCharacters(message: Uint8Array): number {
  const { embeds } = JSON.parse(Buffer.from(message).toString()) as { readonly embeds: readonly Embed[] };
  return embeds.reduce((sum, embed) => sum + charactersOf(embed), 0);
}

const charactersOf = ({ title, description, fields }: Embed): number =>
  fields.reduce((sum, { name, value }) => sum + name.length + value.length, title.length + description.length);

/** One embed of a Discord message, which can be a message alone: the description is what gives way. */
export function discordEmbed(
  element: EnhancedTransaction,
  { explorerUrlTemplate, cluster }: DiscordOptions,
): Readonly<Record<string, unknown>> {
  const { type, source, description, signature } = element;
  const title = cut(`${type.replaceAll('_', ' ')} on ${source}`, MAX.title);
  const url = explorerUrlTemplate.replaceAll('{signature}', signature).replaceAll('{cluster}', cluster);
  const fields = [
    { name: 'Signature', value: signature },
    { name: 'Fee payer', value: String(element['feePayer']) },
    { name: 'Fee', value: `${solAmount(Number(element['fee']))} SOL` },
    ...transfers(element as unknown as Transfers).map((value) => ({ name: 'Transfer', value: cut(value, MAX.field) })),
  ];
  const left = MAX_MESSAGE_CHARACTERS - charactersOf({ title, description: '', fields });
  return {
    title,
    description: cut(description === '' ? signature : description, Math.min(MAX.description, left)),
    url,
    timestamp: new Date(Number(element['timestamp']) * MS_PER_SECOND).toISOString(),
    color: COLOR,
    fields,
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
