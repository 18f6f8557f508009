import { stringify } from '../../src/lib/json.ts';
import { lazy } from '../../src/lib/lazy.ts';
import type { PluginContext } from '../../src/plugin/plugin.ts';
import type { ChainBlock, NormalTransaction } from '../../src/ports/block.ts';
import type { ChainId, ChainStatus } from '../../src/ports/chain.ts';
import { kernelParsers } from '../../src/ports/parsers.ts';
import { tokenNames } from '../../src/ports/tokens.ts';
import {
  contributedParser,
  type EnhancedTransaction,
  type EnhanceParts,
  type ReadTransaction,
  readTransaction,
} from '../../src/solana/parsers/enhance.ts';
import { solAmount } from '../../src/solana/parsers/parser.ts';
import { PARSERS } from '../../src/solana/parsers/registry.ts';
import { EXPLORER_CLUSTERS } from '../../src/solana/programs.ts';
import { rawTransaction } from '../../src/solana/raw-transaction.ts';
import type { WebhooksConfig } from './config.ts';
import { type BodyForm, type BodyKind, PLAIN_FORMS, type PlainForm } from './model.ts';

/** The transactions of one block as elements of request bodies. Each is built once, on first use. */
export interface BlockBodies {
  /** Type that `transactionTypes` of enhanced and discord webhooks is compared with. */
  typeOf(transaction: NormalTransaction): string;
  /** The JSON text of an element: a raw or enhanced transaction, or one embed of a Discord message. */
  element(transaction: NormalTransaction, form: PlainForm): string;
}

/** Builds the elements of request bodies: pure, without look-ups. */
export interface BodyBuilder {
  /** The forms that can be built; webhooks of other forms are refused. */
  readonly forms: ReadonlySet<PlainForm>;
  ofBlock(block: ChainBlock, chain: ChainId): BlockBodies;
}

interface BodyBuilderOptions {
  /** Include keys of the node beyond the published ones in raw elements. */
  readonly extraKeys: boolean;
  /** Page of a transaction in Discord messages, with `{signature}` and `{cluster}`. */
  readonly explorerUrlTemplate: string;
  /** Name of a chain on that page. */
  explorerCluster(chain: ChainId): string;
  /** Parts of enhanced elements; names are those of the main chain. */
  readonly enhance: () => EnhanceParts;
  /** Called for each classified transaction. */
  classified?(type: string): void;
}

export function createBodyBuilder(options: BodyBuilderOptions): BodyBuilder {
  return {
    forms: new Set(PLAIN_FORMS),
    ofBlock: (block, chain) => bodiesOf(block, chain, options),
  };
}

function bodiesOf(block: ChainBlock, chain: ChainId, options: BodyBuilderOptions): BlockBodies {
  const read = new Map<number, ReadTransaction>();
  const parts = lazy(
    (): EnhanceParts => (chain === 'main' ? options.enhance() : { ...options.enhance(), names: null }),
  );
  const cluster = lazy(() => options.explorerCluster(chain));

  function readOf(transaction: NormalTransaction): ReadTransaction {
    const known = read.get(transaction.index);
    if (known !== undefined) return known;
    const made = readTransaction(transaction, block, parts());
    read.set(transaction.index, made);
    options.classified?.(made.type);
    return made;
  }

  return {
    typeOf: (transaction) => readOf(transaction).type,
    element(transaction, form) {
      if (form === 'raw') return stringify(rawTransaction(transaction, block, { extraKeys: options.extraKeys }));
      const element = readOf(transaction).element();
      if (form === 'enhanced') return stringify(element);
      return stringify(discordEmbed(element, { explorerUrlTemplate: options.explorerUrlTemplate, cluster: cluster() }));
    },
  };
}

/** Makes the builder of bodies with the token names and parsers of other plugins. */
export function createBodies(ctx: PluginContext<WebhooksConfig>): BodyBuilder {
  const { config, log } = ctx;
  const book = ctx.use(kernelParsers);
  const names = ctx.use(tokenNames) ?? null;
  const faults = ctx.metrics.counter('parser_errors_total', 'transactions that a parser failed to read', ['parser']);
  const classified = ctx.metrics.counter('classified_total', 'Transactions that were read for webhooks, by type', [
    'type',
  ]);
  const options = lazy(
    (): EnhanceParts => ({
      names,
      ...(book === undefined ? {} : { options: book.options }),
      // All plugins are provisioned before the first block.
      parsers: [...(book?.all() ?? []).map(contributedParser), ...PARSERS],
      onFault(parser, signature, error) {
        faults.with(parser).add();
        log.warn({ parser, signature, err: error }, 'a parser failed');
      },
    }),
  );
  return createBodyBuilder({
    get extraKeys() {
      return config.raw.extraKeys;
    },
    get explorerUrlTemplate() {
      return config.explorerUrlTemplate;
    },
    explorerCluster: (chain) => explorerCluster(ctx.chain(chain)?.status() ?? null),
    enhance: options,
    classified: (type) => classified.with(type).add(),
  });
}

/**
 * The genesis hash decides: an operator may follow any cluster as the main chain. A chain that explorers do not know is `custom`, so that a
 * link never leads to a public cluster. An explorer in a browser can show a local chain when the link contains its address; the addresses
 * of other upstreams are secret.
 */
function explorerCluster(status: Pick<ChainStatus, 'genesisHash' | 'kind' | 'rpcUrl'> | null): string {
  const cluster = EXPLORER_CLUSTERS.get(status?.genesisHash ?? '');
  if (cluster !== undefined) return cluster;
  if (status?.kind !== 'local' || status.rpcUrl === undefined) return 'custom';
  return `custom&customUrl=${encodeURIComponent(status.rpcUrl)}`;
}

interface Frame {
  readonly before: Buffer;
  readonly after: Buffer;
}

const ARRAY: Frame = { before: Buffer.from('['), after: Buffer.from(']') };
/** One message with several embeds; no user is mentioned, whatever a description contains. */
const MESSAGE: Frame = {
  before: Buffer.from('{"embeds":['),
  after: Buffer.from('],"allowed_mentions":{"parse":[]}}'),
};
const COMMA = Buffer.from(',');

const frameOf = (form: BodyForm | BodyKind): Frame => (form === 'discord' ? MESSAGE : ARRAY);

/** The request body of one element, given as JSON text. */
export function wrapElement(form: BodyForm | BodyKind, element: string): Buffer {
  const { before, after } = frameOf(form);
  return Buffer.concat([before, Buffer.from(element), after]);
}

/** The request body of the elements of several complete bodies, in their order. */
export function mergeBodies(form: BodyForm, bodies: readonly Buffer[]): Buffer {
  const { before, after } = frameOf(form);
  const parts: Buffer[] = [before];
  for (const [at, body] of bodies.entries()) {
    if (at > 0) parts.push(COMMA);
    parts.push(body.subarray(before.length, body.length - after.length));
  }
  return Buffer.concat([...parts, after]);
}

const MAX_BYTES = 1_048_576;

/** Returns a function that reports, body by body, whether another body fits into the request that starts with `first`. */
export function createBodyRoom(form: BodyForm, first: Uint8Array): (body: Uint8Array) => boolean {
  const charactersOf = (body: Uint8Array) => (form === 'discord' ? messageCharacters(body) : 0);
  let bytes = first.length;
  let characters = charactersOf(first);
  return (body) => {
    bytes += body.length;
    characters += charactersOf(body);
    return bytes <= MAX_BYTES && characters <= MAX_MESSAGE_CHARACTERS;
  };
}

export interface DiscordOptions {
  /** URL with the placeholders `{signature}` and `{cluster}`. */
  readonly explorerUrlTemplate: string;
  /** Name of the chain on that page: `mainnet-beta`, `devnet`, `testnet`, or `custom`, with the address of a local chain. */
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
/** Discord's length limits. */
const MAX = { title: 256, description: 4_096, field: 1_024 };
/** Discord's limit for all embeds of a message together. */
const MAX_MESSAGE_CHARACTERS = 6_000;
const MS_PER_SECOND = 1_000;

interface Embed {
  readonly title: string;
  readonly description: string;
  readonly fields: readonly { readonly name: string; readonly value: string }[];
}

/** The characters of a message as Discord counts them, or more: a surrogate pair counts as two here. */
function messageCharacters(message: Uint8Array): number {
  const { embeds } = JSON.parse(Buffer.from(message).toString()) as { readonly embeds: readonly Embed[] };
  return embeds.reduce((sum, embed) => sum + charactersOf(embed), 0);
}

const charactersOf = ({ title, description, fields }: Embed): number =>
  fields.reduce((sum, { name, value }) => sum + name.length + value.length, title.length + description.length);

/** One embed of a Discord message, within the limits of a whole message: the description is cut. */
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

/** At most this many characters, never splitting a surrogate pair. */
function cut(text: string, length: number): string {
  if (text.length <= length) return text;
  const kept = text.slice(0, length - 1);
  return `${/[\ud800-\udbff]$/.test(kept) ? kept.slice(0, -1) : kept}…`;
}
