import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM, WRAPPED_SOL_MINT } from '../../../src/solana/programs.ts';
import {
  type AddressTransaction,
  ApiError,
  type AssetPage,
  type AssetProof,
  type BalanceChanges,
  type Balances,
  type LargestAccounts,
  lookUp,
  type PageAsset,
  type ParsedAccounts,
  type PicturedAnswer,
  type Project,
  pictureAddress,
  type ShownAssetChanges,
  type WordsPage,
} from './api.ts';
import { amount, capital, dollars, foreign, middle, number, units } from './format.ts';
import { Image } from './icons.tsx';
import { go, href, useWorld } from './place.ts';
import { Plot } from './plot.tsx';
import { isPortal } from './portal.ts';
import { TransactionPage, WhatItDid } from './transaction.tsx';
import {
  AddressLink,
  Badge,
  Button,
  Card,
  Empty,
  Facts,
  Head,
  Id,
  type LoadState,
  Name,
  Notice,
  SearchForm,
  Show,
  Stat,
  Table,
  Time,
  useLoad,
} from './ui.tsx';

interface PageProps {
  readonly project: Project;
  readonly address: string;
  readonly query: URLSearchParams;
}

const ADDRESS = /^[1-9A-HJ-NP-Za-km-z]{32,44}$/;
const SIGNATURE = /^[1-9A-HJ-NP-Za-km-z]{64,88}$/;
const NEITHER = 'An address has 32 to 44 letters and digits of base58, a signature 64 to 88';
const PATH = 'look-up';

/** An asset, or a wallet with what it holds, by its address; a transaction by its signature. */
export function LookUpPage({ address, ...props }: Omit<PageProps, 'address'> & { address: string | null }) {
  const { project } = props;
  return (
    <>
      <Head
        title="Look up"
        note="Wallets, assets and transactions as the API returns them. The project pays for a look-up as for the same calls with a key."
      />
      <SearchForm
        label="Address or signature"
        submit="Look up"
        first={address ?? ''}
        problemOf={(text) => (ADDRESS.test(text) || SIGNATURE.test(text) ? undefined : NEITHER)}
        onSearch={(text) => go(['p', project.id, PATH, text])}
      />
      {address === null ? (
        <Card>
          <Empty title="Enter an address or a signature">
            A wallet shows its tokens and NFTs; a token or an NFT its picture, its owner and where it comes from; a
            transaction what it did, in words.
          </Empty>
        </Card>
      ) : ADDRESS.test(address) ? (
        <FoundPage {...props} address={address} />
      ) : SIGNATURE.test(address) ? (
        <TransactionPage project={project} signature={address} />
      ) : (
        <Card>
          <Empty title="This is neither an address nor a signature">{`${NEITHER}.`}</Empty>
        </Card>
      )}
    </>
  );
}

/** Statuses of an asset that is not there, and of no asset API. */
const NO_ASSET = [404, 501];

/** What has no asset is a wallet: any address can hold SOL. */
function FoundPage(props: PageProps) {
  const { project, address } = props;
  const found = useLoad(async () => {
    try {
      return { asset: await lookUp<PageAsset | null>(project.id, { what: 'asset', address }), failure: null };
    } catch (error) {
      // Without a connection, or without credits, nothing else would be found.
      if (!(error instanceof ApiError) || error.status === 0 || error.status === 429 || error.status < 404) throw error;
      return { asset: null, failure: NO_ASSET.includes(error.status) ? null : error.message };
    }
  }, [project.id, address]);
  return (
    <Show of={found} lines={8}>
      {({ asset, failure }) => {
        if (asset !== null && asset.result !== null)
          return <AssetView {...props} asset={asset.result} pictures={asset.pictures} />;
        return (
          <>
            {failure !== null && (
              <Notice tone="warn" title="Whether this address is an asset is not known">
                <p>{failure}</p>
              </Notice>
            )}
            <WalletView key={address} {...props} />
          </>
        );
      }}
    </Show>
  );
}

// --------------------------------------------------------------------------------------------------------------- parts

type Pictures = PicturedAnswer<unknown>['pictures'];

const NAME_LETTERS = 120;

/** A picture from the daemon; a frame of the same size where there is none. */
function Picture({
  src,
  size,
  alt = '',
  letter = '',
}: {
  src: string | null;
  size: 'small' | 'medium' | 'tile' | 'large';
  alt?: string;
  /** Stands for a picture that a token does not have. */
  letter?: string;
}) {
  const [failed, setFailed] = useState<string | null>(null);
  return (
    <span class={`picture ${size}`}>
      {src !== null && failed !== src ? (
        <img src={src} alt={alt} loading="lazy" decoding="async" onError={() => setFailed(src)} />
      ) : letter !== '' ? (
        <span class="letter" aria-hidden="true">
          {letter.toUpperCase()}
        </span>
      ) : (
        <>
          <Image size={size === 'small' ? 14 : 28} aria-hidden />
          {size === 'large' && <span class="small">{isPortal ? 'Not shown here' : 'No picture'}</span>}
        </>
      )}
    </span>
  );
}

const firstLetter = (text: string): string => [...text].find((one) => /[\p{L}\p{N}]/u.test(one)) ?? '';

/** A page of a list by its number in the address, kept beside the numbers of other lists. */
function usePage({ project, address, query }: PageProps, name: string) {
  const page = Math.max(1, Math.min(1_000_000, Math.floor(Number(query.get(name) ?? 1)) || 1));
  const turn = (to: number) =>
    go(['p', project.id, PATH, address], { ...Object.fromEntries(query), [name]: to === 1 ? null : String(to) });
  return { page, turn };
}

function Pages({
  label,
  page,
  hasMore,
  turn,
}: {
  label: string;
  page: number;
  hasMore: boolean;
  turn: (page: number) => void;
}) {
  if (page === 1 && !hasMore) return null;
  return (
    <nav class="pages" aria-label={label}>
      <Button disabled={page === 1} onClick={() => turn(page - 1)}>
        Previous page
      </Button>
      <span class="soft" aria-live="polite">
        Page {number(page)}
      </span>
      <Button disabled={!hasMore} onClick={() => turn(page + 1)}>
        Next page
      </Button>
    </nav>
  );
}

const nameOf = ({ content }: PageAsset): string => foreign(content?.metadata?.['name'], NAME_LETTERS);

function imageOf({ content }: PageAsset): string | undefined {
  const image = content?.links?.image;
  if (typeof image === 'string') return image;
  const file = content?.files?.find(({ mime }) => typeof mime === 'string' && mime.startsWith('image/'))?.uri;
  return typeof file === 'string' ? file : undefined;
}

const collectionOf = ({ grouping = [] }: PageAsset) => grouping.find(({ group_key: key }) => key === 'collection');

/** Assets as a grid of pictures, page by page. */
function Gallery({
  what,
  title,
  none,
  onLoaded,
  ...props
}: PageProps & {
  what: 'nfts' | 'members';
  title: string;
  none: string;
  /** Told whether there are any; not, if they cannot be read. */
  onLoaded?: (isAny: boolean) => void;
}) {
  const { project, address } = props;
  const { page, turn } = usePage(props, 'page');
  const loaded = useLoad(() => lookUp<AssetPage>(project.id, { what, address, page }), [project.id, address, page]);
  const { data, error } = loaded;
  useEffect(() => {
    if (data !== null) onLoaded?.(page > 1 || data.result.items.length > 0);
    else if (error !== null) onLoaded?.(false);
  }, [data, error]);
  return (
    <Card title={title}>
      <Show of={loaded} lines={4}>
        {({ result: { items }, pictures }) =>
          items.length === 0 ? (
            <Empty title={page === 1 ? none : 'No more on this page'} />
          ) : (
            <ul class="gallery">
              {items.map((asset) => (
                <li key={asset.id}>
                  <Tile project={project} asset={asset} pictures={pictures} />
                </li>
              ))}
            </ul>
          )
        }
      </Show>
      <Pages
        label={`Pages of ${title}`}
        page={page}
        hasMore={data !== null && data.result.items.length >= data.result.limit}
        turn={turn}
      />
    </Card>
  );
}

function Tile({ project, asset, pictures }: { project: Project; asset: PageAsset; pictures: Pictures }) {
  const name = nameOf(asset) || middle(asset.id, 6);
  const collection = collectionOf(asset)?.group_value;
  return (
    <a href={href(['p', project.id, PATH, asset.id])} title={name}>
      <Picture src={pictureAddress(imageOf(asset), pictures)} size="tile" />
      <span class="strong one-line">
        <Name text={name} />
      </span>
      <span class="soft small one-line">
        {asset.compression?.compressed === true ? 'Compressed' : kindOf(asset.interface)}
        {collection ? ` · ${middle(collection, 4)}` : ''}
      </span>
    </a>
  );
}

const SIGNATURE_LETTERS = 10;

function Signature({ project, of }: { project: Project; of: string }) {
  return <Id text={of} kept={SIGNATURE_LETTERS} to={href(['p', project.id, PATH, of])} />;
}

/** The newest transactions of an address, or changes of a compressed asset. */
function Transactions({
  project,
  address,
  isCompressed,
}: {
  project: Project;
  address: string;
  isCompressed: boolean;
}) {
  const loaded: LoadState<PicturedAnswer<readonly AddressTransaction[] | ShownAssetChanges>> = useLoad(
    () => lookUp(project.id, { what: 'transactions', address, isCompressed }),
    [project.id, address, isCompressed],
  );
  const none = <Empty title="No transactions" />;
  return (
    <Card title="Latest transactions" flush>
      <Show of={loaded} lines={4}>
        {({ result }) =>
          'items' in result ? (
            <Table
              caption="Latest transactions"
              dense
              keyOf={([signature, operation]) => `${signature} ${operation}`}
              rows={result.items}
              empty={none}
              columns={[
                { name: 'Signature', isTitle: true, show: ([one]) => <Signature project={project} of={one} /> },
                { name: 'Operation', show: ([, operation]) => foreign(operation, NAME_LETTERS) },
              ]}
            />
          ) : (
            <Table
              caption="Latest transactions"
              dense
              keyOf={({ signature }) => signature}
              rows={result}
              empty={none}
              columns={[
                {
                  name: 'Signature',
                  isTitle: true,
                  show: ({ signature }) => <Signature project={project} of={signature} />,
                },
                { name: 'Time', show: ({ blockTime }) => <Time at={blockTime == null ? null : blockTime * 1_000} /> },
                { name: 'Slot', isNumber: true, show: ({ slot }) => number(slot) },
                {
                  name: 'Outcome',
                  show: ({ err }) => (
                    <Badge tone={err === null ? 'good' : 'bad'}>{err === null ? 'Succeeded' : 'Failed'}</Badge>
                  ),
                },
              ]}
            />
          )
        }
      </Show>
    </Card>
  );
}

// -------------------------------------------------------------------------------------------------------------- wallet

function WalletView(props: PageProps) {
  // The plugin that decodes transactions has both.
  const { hasInterfaces } = useWorld();
  // Without the plugin of wallets there are no balances, now or earlier.
  const [hasBalances, setHasBalances] = useState(false);
  /** Null until it is known. */
  const [hasNfts, setHasNfts] = useState<boolean | null>(null);
  return (
    <>
      <Tokens {...props} hasNfts={hasNfts} onFound={() => setHasBalances(true)} />
      {hasBalances && <BalancePlot project={props.project} address={props.address} />}
      {hasInterfaces ? (
        <Activity project={props.project} address={props.address} />
      ) : (
        <Transactions project={props.project} address={props.address} isCompressed={false} />
      )}
      <Gallery {...props} what="nfts" title="NFTs" none="No NFTs" onLoaded={setHasNfts} />
    </>
  );
}

interface OfWallet {
  readonly project: Project;
  readonly address: string;
}

const LAMPORTS = 1e9;

/** The balance of SOL after each of the newest transactions: from the balance now, back over what each one changed. */
function BalancePlot({ project, address }: OfWallet) {
  const loaded = useLoad(async () => {
    const [now, changes] = await Promise.all([
      lookUp<{ readonly value: number }>(project.id, { what: 'lamports', address }),
      lookUp<BalanceChanges>(project.id, { what: 'changes', address }),
    ]);
    return { lamports: now.result.value, changes: changes.result };
  }, [project.id, address]);
  const points = useMemo(() => (loaded.data === null ? [] : pointsOf(loaded.data)), [loaded.data]);
  if (points.length < 2 && loaded.error === null && loaded.data !== null) return null;
  const { hasMore = false } = loaded.data?.changes.pagination ?? {};
  return (
    <Card
      title="Balance"
      note={
        loaded.data === null
          ? undefined
          : hasMore
            ? 'SOL, over the newest 100 transactions'
            : 'SOL, since the first transaction'
      }
    >
      <Show of={loaded} lines={5}>
        {() => (
          <Plot
            title="Balance of SOL"
            times={points.map(([at]) => at)}
            lines={[{ name: 'SOL', color: 2, values: points.map(([, lamports]) => lamports / LAMPORTS) }]}
            show={amount}
            isFitted
          />
        )}
      </Show>
    </Card>
  );
}

/** Times in Unix milliseconds with the lamports from then on, oldest first; of one second only the last. */
function pointsOf({
  lamports,
  changes: { data, pagination },
}: {
  readonly lamports: number;
  readonly changes: BalanceChanges;
}): readonly (readonly [at: number, lamports: number])[] {
  const points = new Map<number, number>([[Date.now(), lamports]]);
  let after = lamports;
  for (const { timestamp, balanceChanges } of data) {
    if (timestamp !== null && !points.has(timestamp * 1_000)) points.set(timestamp * 1_000, after);
    after -= balanceChanges
      .filter(({ mint }) => mint === 'SOL')
      .reduce((sum, { amount: change }) => sum + Math.round(change * LAMPORTS), 0);
  }
  const [oldest] = [...points.keys()].slice(-1);
  // Before its first transaction an address has nothing.
  if (!pagination.hasMore && oldest !== undefined && points.size > 1) points.set(oldest - 1_000, after);
  return [...points].sort(([one], [other]) => one - other);
}

/** Statuses with which the words of an address are not there: a program, no index of it, not indexed yet. */
const NO_WORDS = [400, 501, 503];

/** The transactions of a wallet in words, page by page; their list alone where there are no words. */
function Activity({ project, address }: OfWallet) {
  const [places, setPlaces] = useState<readonly (string | null)[]>([null]);
  const after = places.at(-1) ?? null;
  const loaded = useLoad(async () => {
    try {
      return { page: (await lookUp<WordsPage>(project.id, { what: 'words', address, after })).result };
    } catch (error) {
      if (error instanceof ApiError && NO_WORDS.includes(error.status)) return { page: null };
      throw error;
    }
  }, [project.id, address, after]);
  if (loaded.data !== null && loaded.data.page === null)
    return <Transactions project={project} address={address} isCompressed={false} />;
  const next = loaded.data?.page?.paginationToken ?? null;
  return (
    <Card title="Latest transactions" flush>
      <Show of={loaded} lines={6}>
        {({ page }) => (
          <Table
            caption="Latest transactions"
            dense
            keyOf={({ signature }) => signature}
            rows={page?.data ?? []}
            empty={<Empty title={places.length === 1 ? 'No transactions' : 'No more on this page'} />}
            columns={[
              {
                name: 'What it did',
                isTitle: true,
                show: ({ parsed }) =>
                  parsed == null ? (
                    <span class="soft">It cannot be read</span>
                  ) : (
                    <span class="did">
                      <WhatItDid project={project} parsed={parsed} own={address} />
                      {parsed.transactionStatus === 'ERROR' && <Badge tone="bad">Failed</Badge>}
                    </span>
                  ),
              },
              {
                name: 'Time',
                show: ({ parsed }) => <Time at={parsed?.blockTime == null ? null : parsed.blockTime * 1_000} />,
              },
              {
                name: 'Fee',
                isNumber: true,
                // Who else paid says nothing about this wallet.
                show: ({ parsed }) => (parsed?.feePayer === address ? `${units(parsed.fee, 9)} SOL` : '–'),
              },
              { name: 'Signature', show: ({ signature }) => <Signature project={project} of={signature} /> },
            ]}
          />
        )}
      </Show>
      <Pages
        label="Pages of transactions"
        page={places.length}
        hasMore={next !== null}
        turn={(to) => setPlaces(to > places.length ? [...places, next] : places.slice(0, Math.max(1, to)))}
      />
    </Card>
  );
}

function Tokens({ hasNfts, onFound, ...props }: PageProps & { hasNfts: boolean | null; onFound: () => void }) {
  const { project, address } = props;
  const { page, turn } = usePage(props, 'tokens');
  const loaded = useLoad(
    () => lookUp<Balances>(project.id, { what: 'balances', address, page }),
    [project.id, address, page],
  );
  useEffect(() => {
    if (loaded.data !== null) onFound();
  }, [loaded.data]);
  return (
    <Card title="Wallet" note={<Id text={address} kept={8} />} flush>
      <Show of={loaded} lines={4}>
        {({ result: { balances, totalUsdValue, pagination }, pictures }) => (
          <>
            {page === 1 && hasNfts === false && balances.every(({ balance }) => balance === 0) && (
              <Notice tone="info" title="Nothing is here">
                <p>This address has no SOL and no tokens now. It may never have been used.</p>
              </Notice>
            )}
            <dl class="stats of-wallet">
              {page === 1 && <Stat name="SOL">{amount(balances[0]?.balance ?? 0)}</Stat>}
              <Stat name={pagination.hasMore || page > 1 ? 'Value of this page' : 'Value'}>
                {balances.some(({ usdValue }) => usdValue !== null) ? dollars(totalUsdValue) : '–'}
              </Stat>
              <Stat name={page === 1 ? 'Tokens' : 'Tokens of this page'}>
                {`${number(balances.length - (page === 1 ? 1 : 0))}${pagination.hasMore && page === 1 ? ' and more' : ''}`}
              </Stat>
            </dl>
            <Table
              caption="Tokens"
              keyOf={({ symbol, mint }) => `${mint} ${symbol}`}
              rows={balances}
              empty={<Empty title="No more tokens" />}
              columns={[
                {
                  name: 'Token',
                  isTitle: true,
                  show: ({ symbol, name, logoUri }) => (
                    <span class="token">
                      <Picture
                        src={pictureAddress(logoUri, pictures)}
                        size="small"
                        letter={firstLetter(foreign(symbol, 24) || foreign(name, 24))}
                      />
                      <TokenName symbol={foreign(symbol, 24)} name={foreign(name, NAME_LETTERS)} />
                    </span>
                  ),
                },
                {
                  name: 'Mint',
                  // SOL itself has none: the row stands under the mint of wrapped SOL.
                  show: ({ mint, symbol }) =>
                    mint === WRAPPED_SOL_MINT && symbol === 'SOL' ? (
                      '–'
                    ) : (
                      <AddressLink project={project} address={mint} />
                    ),
                },
                { name: 'Balance', isNumber: true, show: ({ balance }) => amount(balance) },
                { name: 'Price', isNumber: true, show: ({ pricePerToken }) => dollars(pricePerToken) },
                { name: 'Value', isNumber: true, show: ({ usdValue }) => dollars(usdValue) },
              ]}
            />
            <Pages label="Pages of tokens" page={page} hasMore={pagination.hasMore} turn={turn} />
          </>
        )}
      </Show>
    </Card>
  );
}

function TokenName({ symbol, name }: { symbol: string; name: string }) {
  if (symbol === '' && name === '') return <span class="soft">Unnamed token</span>;
  return (
    <span class="token-name">
      <span class="strong">
        <Name text={symbol || name} />
      </span>
      {symbol !== '' && name !== '' && (
        <span class="soft">
          <Name text={name} />
        </span>
      )}
    </span>
  );
}

// --------------------------------------------------------------------------------------------------------------- asset

/** `ProgrammableNFT` → `Programmable NFT` */
const kindOf = (name: string): string => name.replace(/([a-z])([A-Z])/g, '$1 $2').replaceAll('_', ' ');

function AssetView({ asset, pictures, ...props }: PageProps & { asset: PageAsset; pictures: Pictures }) {
  const { project } = props;
  const { content, ownership, compression, royalty, token_info: token, creators = [], authorities = [] } = asset;
  const name = nameOf(asset) || middle(asset.id, 6);
  const symbol = foreign(content?.metadata?.['symbol'], 24);
  const description = foreign(content?.metadata?.['description']);
  const uri = foreign(content?.json_uri);
  const collection = collectionOf(asset);
  const isCompressed = compression?.compressed === true;
  const isToken = FUNGIBLE.has(asset.interface);
  const link = (address: string | null | undefined) =>
    address ? <AddressLink project={project} address={address} /> : null;
  return (
    <>
      <Card>
        <div class={isToken ? 'asset of-token' : 'asset'}>
          <Picture
            src={pictureAddress(imageOf(asset), pictures)}
            size={isToken ? 'medium' : 'large'}
            alt={`Picture of ${name}`}
            letter={isToken ? firstLetter(symbol || nameOf(asset)) : ''}
          />
          <div class="stack">
            <div>
              <h2 class="asset-name">
                <Name text={name} />
              </h2>
              {symbol !== '' && (
                <p class="soft">
                  <Name text={symbol} />
                </p>
              )}
            </div>
            <p class="badges">
              <Badge tone="info">{kindOf(asset.interface)}</Badge>
              {isCompressed && <Badge tone="plain">Compressed</Badge>}
              {asset.burnt === true && <Badge tone="bad">Burnt</Badge>}
              {ownership?.frozen === true && <Badge tone="warn">Frozen</Badge>}
              {asset.mutable === false && <Badge tone="plain">Immutable</Badge>}
            </p>
            {description !== '' && (
              <p class="description" dir="auto">
                {description}
              </p>
            )}
            <Facts
              rows={[
                ['Address', <Id key="id" text={asset.id} kept={8} />],
                ['Owner', link(ownership?.owner)],
                ['Delegate', link(ownership?.delegate)],
                [
                  'Collection',
                  collection?.group_value ? (
                    <>
                      {link(collection.group_value)}
                      {collection.verified === false && <span class="soft"> not verified</span>}
                    </>
                  ) : null,
                ],
                ...(isToken ? [] : [['Authority', link(authorities[0]?.address)] as const]),
                ['Supply', supplyOf(token)],
                ...(isToken ? tokenFacts(asset, link) : []),
                ['Royalty', royalty?.basis_points ? `${royalty.basis_points / 100} %` : null],
                ['Read at slot', asset.last_indexed_slot ? number(asset.last_indexed_slot) : null],
                ['Document', uri === '' ? null : <Id key="uri" text={uri} kept={16} />],
              ]}
            />
          </div>
        </div>
      </Card>
      {isToken && <Holders project={project} asset={asset} />}
      {isCompressed && <Compression project={project} asset={asset} />}
      <Attributes of={content?.metadata?.['attributes']} />
      {creators.length > 0 && (
        <Card title="Creators" flush>
          <Table
            caption="Creators"
            dense
            keyOf={({ address }) => address}
            rows={creators}
            empty={null}
            columns={[
              { name: 'Creator', isTitle: true, show: ({ address }) => link(address) },
              { name: 'Share', isNumber: true, show: ({ share }) => `${share} %` },
              {
                name: 'Signature',
                show: ({ verified }) => (
                  <Badge tone={verified ? 'good' : 'plain'}>{verified ? 'Verified' : 'Not verified'}</Badge>
                ),
              },
            ]}
          />
        </Card>
      )}
      {asset.interface === 'MplCoreCollection' && (
        <Gallery {...props} what="members" title="Assets of the collection" none="No assets" />
      )}
      <Transactions project={project} address={asset.id} isCompressed={isCompressed} />
    </>
  );
}

const FUNGIBLE = new Set(['FungibleToken', 'FungibleAsset']);

const PROGRAM_NAMES: Readonly<Record<string, string>> = {
  [TOKEN_PROGRAM]: 'SPL Token',
  [TOKEN_2022_PROGRAM]: 'Token-2022',
};

/** Who may change a token, and how its amounts are read. */
function tokenFacts(
  { token_info: token = {}, authorities = [] }: PageAsset,
  link: (address: string | null | undefined) => ComponentChildren | null,
): readonly (readonly [name: string, value: ComponentChildren | null])[] {
  const { decimals, token_program: program, price_info: price } = token;
  return [
    ['Decimals', number(decimals)],
    ['Price', price?.price_per_token === undefined ? null : dollars(price.price_per_token)],
    ['Mint authority', link(token.mint_authority) ?? 'none: the supply cannot grow'],
    ['Freeze authority', link(token.freeze_authority) ?? 'none: accounts cannot be frozen'],
    ['Metadata authority', link(authorities[0]?.address)],
    ['Program', program === undefined ? null : (PROGRAM_NAMES[program] ?? link(program))],
  ];
}

/** The largest accounts of a token with their owners, and their part of the supply. */
function Holders({ project, asset: { id, token_info: token } }: { project: Project; asset: PageAsset }) {
  const loaded = useLoad(async () => {
    const { value } = (await lookUp<LargestAccounts>(project.id, { what: 'holders', address: id })).result;
    const held = value.filter(({ amount: units }) => units !== '0');
    if (held.length === 0) return [];
    const addresses = held.map(({ address }) => address);
    const accounts = (await lookUp<ParsedAccounts>(project.id, { what: 'accounts', addresses })).result.value;
    return held.map((one, at) => {
      const owner = accounts[at]?.data?.parsed?.info?.owner;
      return { ...one, owner: typeof owner === 'string' && ADDRESS.test(owner) ? owner : null };
    });
  }, [project.id, id]);
  const supply = token?.supply ?? 0;
  return (
    <Card title="Largest holders" flush>
      <Show of={loaded} lines={4}>
        {(holders) => (
          <Table
            caption="Largest holders"
            dense
            keyOf={({ address }) => address}
            rows={holders}
            empty={<Empty title="Nobody holds this token" />}
            columns={[
              {
                name: 'Owner',
                isTitle: true,
                show: ({ owner }) => (owner === null ? '–' : <AddressLink project={project} address={owner} />),
              },
              { name: 'Token account', show: ({ address }) => <AddressLink project={project} address={address} /> },
              {
                name: 'Amount',
                isNumber: true,
                show: ({ amount: held, decimals }) => amount(Number(held) / 10 ** decimals),
              },
              {
                name: 'Part of the supply',
                isNumber: true,
                show: ({ amount: held }) => {
                  if (supply === 0) return '–';
                  const part = Number(held) / supply;
                  return (
                    <span class="progress">
                      <progress max={1} value={part} aria-label={`Part of the supply: ${percent(part)}`} />
                      {percent(part)}
                    </span>
                  );
                },
              },
            ]}
          />
        )}
      </Show>
    </Card>
  );
}

const percent = (part: number): string => `${(100 * part).toLocaleString('en', { maximumSignificantDigits: 3 })} %`;

const supplyOf = (token: PageAsset['token_info']): string | null =>
  token?.supply === undefined ? null : amount(token.supply / 10 ** (token.decimals ?? 0));

/** Where the asset is in its tree, and whether its proof holds. */
function Compression({ project, asset: { id, compression } }: { project: Project; asset: PageAsset }) {
  const proof = useLoad(() => lookUp<AssetProof>(project.id, { what: 'proof', address: id }), [project.id, id]);
  return (
    <Card title="Compression">
      <Facts
        rows={[
          ['Tree', compression?.tree ? <Id key="tree" text={compression.tree} kept={8} /> : null],
          ['Leaf', number(compression?.leaf_id)],
        ]}
      />
      <Show of={proof} lines={1}>
        {({ result: { leaf, root, isProven } }) =>
          isProven && leaf === compression?.asset_hash ? (
            <Notice tone="good" title="Proven">
              <p>
                The hashes of the proof lead from this asset to the root <code>{middle(root, 6)}</code> of its tree.
              </p>
            </Notice>
          ) : (
            <Notice tone="bad" title="Not proven">
              <p>
                {isProven ? 'The proof is of another version of the asset.' : 'The proof does not lead to its root.'}
              </p>
            </Notice>
          )
        }
      </Show>
    </Card>
  );
}

const MAX_ATTRIBUTES = 100;

function Attributes({ of }: { of: unknown }) {
  const all: readonly unknown[] = Array.isArray(of) ? of : [];
  const shown = all.slice(0, MAX_ATTRIBUTES).flatMap((one) => {
    const { trait_type: trait, value } = (one ?? {}) as { readonly trait_type?: unknown; readonly value?: unknown };
    const text = foreign(typeof value === 'object' ? JSON.stringify(value) : String(value ?? ''), NAME_LETTERS);
    return text === '' ? [] : [{ trait: foreign(trait, NAME_LETTERS) || 'Attribute', text }];
  });
  if (shown.length === 0) return null;
  return (
    <Card
      title="Attributes"
      {...(all.length > MAX_ATTRIBUTES ? { note: `The first ${MAX_ATTRIBUTES} of ${number(all.length)}` } : {})}
    >
      <dl class="attributes">
        {shown.map(({ trait, text }, at) => (
          <div key={at}>
            <dt>
              <Name text={capital(trait)} />
            </dt>
            <dd>
              <Name text={text} />
            </dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}
