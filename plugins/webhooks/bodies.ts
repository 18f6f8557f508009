import { stringify } from '../../src/lib/json.ts';
import { lazy } from '../../src/lib/lru.ts';
import type { PluginContext } from '../../src/plugin/plugin.ts';
import type { ChainBlock, NormalTransaction } from '../../src/ports/block.ts';
import type { ChainId, ChainStatus } from '../../src/ports/chain.ts';
import { kernelParsers } from '../../src/ports/parsers.ts';
import { tokenNames } from '../../src/ports/token-names.ts';
import {
  contributedParser,
  type EnhancedTransaction,
  type EnhanceParts,
  type ReadTransaction,
  readTransaction,
} from '../../src/solana/parsers/enhance.ts';
import { PARSERS } from '../../src/solana/parsers/registry.ts';
import { solAmount } from '../../src/solana/parsers/words.ts';
import { rawTransaction } from '../../src/solana/raw-transaction.ts';
import type { WebhooksConfig } from './config.ts';
import { BODY_FORMS, type BodyForm } from './model.ts';

/** The transactions of one block as elements of request bodies. Each is made once and only when somebody wants it. */
export interface BlockBodies {
  /** What `transactionTypes` of enhanced and discord webhooks are compared with. */
  typeOf(transaction: NormalTransaction): string;
  /** The JSON text of an element: of a raw or enhanced transaction, or one embed of a Discord message. */
  element(transaction: NormalTransaction, form: BodyForm): string;
}

/** Makes the elements of request bodies: pure, no look-ups that wait. */
export interface BodyBuilder {
  /** The forms that can be built; webhooks of the others are refused. */
  readonly forms: ReadonlySet<BodyForm>;
  ofBlock(block: ChainBlock, chain: ChainId): BlockBodies;
}

interface BodyBuilderOptions {
  /** Keys of the node beyond the published ones, in raw elements. */
  readonly extraKeys: boolean;
  /** Of the page of a transaction in Discord messages, with `{signature}` and `{cluster}`. */
  readonly explorerUrlTemplate: string;
  /** What that page calls a chain. */
  explorerCluster(chain: ChainId): string;
  /** How enhanced elements are made; names are those of the main chain. */
  readonly enhance: () => EnhanceParts;
  /** Told about each transaction that was read for somebody. */
  classified?(type: string): void;
}

export function createBodyBuilder(options: BodyBuilderOptions): BodyBuilder {
  return {
    forms: new Set(BODY_FORMS),
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

/** Makes the builder of bodies with what other plugins offer: names of tokens and parsers of their own. */
export function createBodies(ctx: PluginContext<WebhooksConfig>): BodyBuilder {
  const { config, log } = ctx;
  const book = ctx.use(kernelParsers);
  const names = ctx.use(tokenNames) ?? null;
  const faults = ctx.metrics.counter('parser_errors_total', 'Transactions at which a parser failed', ['parser']);
  const classified = ctx.metrics.counter('classified_total', 'Transactions that were read for webhooks, by type', [
    'type',
  ]);
  const options = lazy(
    (): EnhanceParts => ({
      names,
      options: config.enhanced,
      // All plugins are provisioned by the time the first block comes.
      parsers: [...(book?.all() ?? []).map(contributedParser), ...PARSERS],
      onFault(parser, signature, error) {
        faults.with(parser).add();
        log.warn({ parser, signature, err: error }, 'a parser failed');
      },
    }),
  );
  return createBodyBuilder({
    extraKeys: config.raw.extraKeys,
    explorerUrlTemplate: config.explorerUrlTemplate,
    explorerCluster: (chain) => explorerCluster(chain, ctx.chain(chain)?.status() ?? null),
    enhance: options,
    classified: (type) => classified.with(type).add(),
  });
}

/** An explorer in a browser shows a local chain too, when the link says where it is. */
function explorerCluster(chain: ChainId, status: Pick<ChainStatus, 'kind' | 'rpcUrl'> | null): string {
  if (status?.kind !== 'local') return chain === 'main' ? 'mainnet-beta' : 'devnet';
  return status.rpcUrl === undefined ? 'custom' : `custom&customUrl=${encodeURIComponent(status.rpcUrl)}`;
}

interface Frame {
  readonly before: Buffer;
  readonly after: Buffer;
}

const ARRAY: Frame = { before: Buffer.from('['), after: Buffer.from(']') };
/** One message of many embeds; nobody is pinged, whatever a description says. */
const MESSAGE: Frame = {
  before: Buffer.from('{"embeds":['),
  after: Buffer.from('],"allowed_mentions":{"parse":[]}}'),
};
const COMMA = Buffer.from(',');

const frameOf = (form: BodyForm): Frame => (form === 'discord' ? MESSAGE : ARRAY);

/** The request body of one element, which is ready JSON text. */
export function wrapElement(form: BodyForm, element: string): Buffer {
  const { before, after } = frameOf(form);
  return Buffer.concat([before, Buffer.from(element), after]);
}

/** The request body of the elements of several ready bodies, in their order. */
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

/** Tells, one after the other, whether a further body fits into the request that begins with `first`. */
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
const MAX_MESSAGE_CHARACTERS = 6_000;
const MS_PER_SECOND = 1_000;

interface Embed {
  readonly title: string;
  readonly description: string;
  readonly fields: readonly { readonly name: string; readonly value: string }[];
}

/** The characters of a message as Discord counts them, or more: those of a surrogate pair are two here. */
function messageCharacters(message: Uint8Array): number {
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
