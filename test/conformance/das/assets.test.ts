import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AccountState,
  AuthorityType,
  createAccount,
  createEnableCpiGuardInstruction,
  createEnableRequiredMemoTransfersInstruction,
  createInitializeAccountInstruction,
  createInitializeDefaultAccountStateInstruction,
  createInitializeMetadataPointerInstruction,
  createInitializeMint2Instruction,
  createInitializeMintInstruction,
  createInitializePermanentDelegateInstruction,
  createInitializeTransferFeeConfigInstruction,
  createMint,
  createMintToInstruction,
  ExtensionType,
  getAccountLen,
  getMintLen,
  MINT_SIZE,
  mintTo,
  setAuthority,
  TOKEN_2022_PROGRAM_ID,
  TOKEN_PROGRAM_ID,
  transfer,
} from '@solana/spl-token';
import {
  Keypair,
  LAMPORTS_PER_SOL,
  PublicKey,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
} from '@solana/web3.js';
import { encode32 } from '../../../src/lib/base58.ts';
import { editionAddress, inscriptionAddress, metadataAddress } from '../../../src/solana/addresses.ts';
import { treeAuthority } from '../../../src/solana/concurrent/tree.ts';
import {
  BUBBLEGUM_PROGRAM,
  CORE_PROGRAM,
  INSCRIPTION_PROGRAM,
  METADATA_PROGRAM,
} from '../../../src/solana/programs.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';
import { redirectHostedClients } from '../../helpers/hosted-client.ts';
import { loadPackage } from '../../helpers/packages.ts';
import { answer, type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { until } from '../../helpers/until.ts';
import { type MetadataFields, writeMetadata } from '../../helpers/write-metadata.ts';

const sdk = await loadPackage('helius-sdk', () => import('helius-sdk'));

// biome-ignore lint/suspicious/noExplicitAny: answers are looked at as the assertions go.
type Answer = { result?: any; error?: { code: number; message: string } };

/** The chain may go on between two calls. */
const withoutSlots = (answer: Answer): unknown =>
  JSON.parse(JSON.stringify(answer), (name, value: unknown) => (name === 'last_indexed_slot' ? 0 : value));

const FIELDS = {
  name: 'Picture #1',
  symbol: 'PIC',
  sellerFeeBasisPoints: 500,
  primarySaleHappened: true,
  isMutable: false,
  editionNonce: 254,
  uses: null,
  collectionDetails: null,
  programmableConfig: null,
} as const;

suite('assets that are read from their accounts', { skip: (await chainMissing()) ?? false }, () => {
  let chain: TestChain;
  let daemon: DaemonInProcess;
  let documents: Receiver;
  const payer = Keypair.generate();
  const [owner, buyer, creator, collection] = Array.from({ length: 4 }, () =>
    Keypair.generate().publicKey.toBase58(),
  ) as [string, string, string, string];
  let nft: PublicKey;
  let held: PublicKey;

  const ask = async (method: string, params: unknown): Promise<Answer> => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', body });
    return (await response.json()) as Answer;
  };
  const setMetadata = (mint: string, fields: Partial<MetadataFields>) =>
    chain.setAccount(metadataAddress(mint), {
      lamports: 1_000_000,
      owner: METADATA_PROGRAM,
      data: writeMetadata(
        {
          ...FIELDS,
          mint,
          updateAuthority: creator,
          uri: `${documents.url}/1.json`,
          creators: [{ address: creator, verified: true, share: 100 }],
          tokenStandard: 'NonFungible',
          collection: { key: collection, verified: true },
          ...fields,
        },
        true,
      ).data,
    });

  before(async () => {
    chain = await startChain();
    documents = await startReceiver();
    documents.setFallback(
      answer(
        200,
        {},
        JSON.stringify({
          description: 'A picture',
          image: 'https://pictures.example/1.jpg',
          external_url: 'https://pictures.example',
          attributes: [{ trait_type: 'Size', value: 3 }],
          properties: {
            files: [
              { uri: 'https://pictures.example/1.glb', type: 'model/gltf-binary' },
              'https://pictures.example/1.mp4',
            ],
          },
        }),
      ),
    );
    const plugins = ['access', 'proxy', 'token-metadata', 'das'];
    const offChain = { allowCidrs: ['127.0.0.1/32'], allowHttp: true };
    daemon = await startDaemon({
      chain,
      config: { plugins, follow: { enabled: false }, das: { documentWaitMs: 30_000 }, 'token-metadata': { offChain } },
    });
    const { connection } = chain;
    await chain.fund(payer.publicKey.toBase58(), 100 * LAMPORTS_PER_SOL);
    nft = await createMint(connection, payer, payer.publicKey, null, 0);
    held = await createAccount(connection, payer, nft, new PublicKey(owner), Keypair.generate());
    await mintTo(connection, payer, nft, held, payer, 1);
    await setAuthority(connection, payer, nft, payer, AuthorityType.MintTokens, null);
    await setMetadata(nft.toBase58(), {});
  });
  after(async () => {
    await daemon?.stop();
    await documents?.close();
    await chain?.stop();
  });

  test('an NFT: chain, document and owner', async () => {
    const { result } = await ask('getAsset', { id: nft.toBase58() });
    const { content, ownership, token_info, last_indexed_slot, ...rest } = result;
    assert.deepEqual(content, {
      $schema: 'https://schema.metaplex.com/nft1.0.json',
      json_uri: `${documents.url}/1.json`,
      files: [
        { uri: 'https://pictures.example/1.jpg', mime: 'image/jpeg' },
        { uri: 'https://pictures.example/1.glb', mime: 'model/gltf-binary' },
        { uri: 'https://pictures.example/1.mp4', mime: 'video/mp4' },
      ],
      metadata: {
        attributes: [{ trait_type: 'Size', value: 3 }],
        description: 'A picture',
        name: 'Picture #1',
        symbol: 'PIC',
        token_standard: 'NonFungible',
      },
      links: { image: 'https://pictures.example/1.jpg', external_url: 'https://pictures.example' },
    });
    assert.deepEqual(ownership, { frozen: false, delegated: false, delegate: null, ownership_model: 'single', owner });
    assert.deepEqual([rest.interface, rest.mutable, rest.burnt], ['V1_NFT', false, false]);
    assert.deepEqual(rest.grouping, [{ group_key: 'collection', group_value: collection }]);
    assert.deepEqual(rest.creators, [{ address: creator, share: 100, verified: true }]);
    assert.equal(rest.royalty.basis_points, 500);
    assert.deepEqual([token_info.supply, token_info.decimals, token_info.symbol], [1, 0, 'PIC']);
    assert.ok(last_indexed_slot > 0);
  });

  test('it is read now: a new owner is shown at once, and a collection that is not verified only when asked for', async () => {
    const mint = await createMint(chain.connection, payer, payer.publicKey, null, 0);
    const from = await createAccount(chain.connection, payer, mint, payer.publicKey, Keypair.generate());
    const to = await createAccount(chain.connection, payer, mint, new PublicKey(buyer), Keypair.generate());
    await mintTo(chain.connection, payer, mint, from, payer, 1);
    const id = mint.toBase58();
    await setMetadata(id, { collection: { key: collection, verified: false } });
    assert.equal((await ask('getAsset', { id })).result.ownership.owner, payer.publicKey.toBase58());
    await transfer(chain.connection, payer, from, to, payer, 1);
    const { result } = await ask('getAsset', [{ id, options: { showUnverifiedCollections: true } }]);
    assert.equal(result.ownership.owner, buyer);
    assert.deepEqual(result.grouping, [{ group_key: 'collection', group_value: collection, verified: false }]);
    assert.deepEqual((await ask('getAsset', { id, displayOptions: null })).result.grouping, []);
  });

  test('numbers of documents are exact in lists and searches as in the asset itself', async () => {
    const values = ['18446744073709551615', '9007199254740993', '-0.12345678901234567890123', '1e400'];
    const attributes = `[${values.map((value) => `{"trait_type":"t","value":${value}}`).join()}]`;
    documents.route('/exact.json', answer(200, {}, `{"name":"n","attributes":${attributes}}`));
    const holder = Keypair.generate().publicKey;
    const mint = await createMint(chain.connection, payer, payer.publicKey, null, 0);
    const account = await createAccount(chain.connection, payer, mint, holder, Keypair.generate());
    await mintTo(chain.connection, payer, mint, account, payer, 1);
    const [id, ownerAddress] = [mint.toBase58(), holder.toBase58()];
    await setMetadata(id, { uri: `${documents.url}/exact.json` });
    for (const [method, params] of [
      ['getAsset', { id }],
      ['getAssetsByOwner', { ownerAddress, page: 1 }],
      ['searchAssets', { ownerAddress, page: 1 }],
    ] as const) {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
      const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', body });
      const text = await response.text();
      assert.ok(text.includes(`"attributes":${attributes}`), `${method}: ${text}`);
    }
  });

  test('a mint of Token-2022 with extensions, and one without any metadata', async () => {
    const mint = Keypair.generate();
    const space = getMintLen([ExtensionType.PermanentDelegate, ExtensionType.MetadataPointer]);
    const lamports = await chain.connection.getMinimumBalanceForRentExemption(space);
    const [{ publicKey }, programId] = [mint, TOKEN_2022_PROGRAM_ID];
    await sendAndConfirmTransaction(
      chain.connection,
      new Transaction().add(
        SystemProgram.createAccount({
          fromPubkey: payer.publicKey,
          newAccountPubkey: publicKey,
          space,
          lamports,
          programId,
        }),
        createInitializePermanentDelegateInstruction(publicKey, payer.publicKey, programId),
        createInitializeMetadataPointerInstruction(publicKey, payer.publicKey, publicKey, programId),
        createInitializeMintInstruction(publicKey, 6, payer.publicKey, null, programId),
      ),
      [payer, mint],
    );
    const { result } = await ask('getAsset', { id: publicKey.toBase58() });
    assert.deepEqual(result.mint_extensions, {
      permanent_delegate: { delegate: payer.publicKey.toBase58() },
      metadata_pointer: { metadata_address: publicKey.toBase58() },
    });
    assert.deepEqual(
      [result.interface, result.ownership.ownership_model, result.ownership.owner, result.content.json_uri],
      ['FungibleToken', 'token', '', ''],
    );
    assert.deepEqual(
      [result.token_info.decimals, result.token_info.token_program],
      [6, TOKEN_2022_PROGRAM_ID.toBase58()],
    );
  });

  test('extensions of token accounts, and the key of an auditor', async () => {
    const [mint, account, holder] = [Keypair.generate(), Keypair.generate(), Keypair.generate()];
    const programId = TOKEN_2022_PROGRAM_ID;
    const auditor = Buffer.alloc(32, 9);
    const inMint = getMintLen([ExtensionType.TransferFeeConfig, ExtensionType.DefaultAccountState]);
    const kinds = [ExtensionType.TransferFeeAmount, ExtensionType.MemoTransfer, ExtensionType.CpiGuard];
    const inAccount = getAccountLen(kinds);
    const make = async ({ publicKey }: Keypair, space: number) =>
      SystemProgram.createAccount({
        fromPubkey: payer.publicKey,
        newAccountPubkey: publicKey,
        space,
        programId,
        lamports: await chain.connection.getMinimumBalanceForRentExemption(space),
      });
    await sendAndConfirmTransaction(
      chain.connection,
      new Transaction().add(
        await make(mint, inMint),
        createInitializeTransferFeeConfigInstruction(mint.publicKey, payer.publicKey, null, 100, 1_000n, programId),
        createInitializeDefaultAccountStateInstruction(mint.publicKey, AccountState.Initialized, programId),
        createInitializeMintInstruction(mint.publicKey, 2, payer.publicKey, payer.publicKey, programId),
        await make(account, inAccount),
        createInitializeAccountInstruction(account.publicKey, mint.publicKey, holder.publicKey, programId),
        createEnableRequiredMemoTransfersInstruction(account.publicKey, holder.publicKey, [], programId),
        createEnableCpiGuardInstruction(account.publicKey, holder.publicKey, [], programId),
        createMintToInstruction(mint.publicKey, account.publicKey, payer.publicKey, 5, [], programId),
      ),
      [payer, mint, account, holder],
    );
    const { result } = await ask('getTokenAccounts', { owner: holder.publicKey.toBase58() });
    assert.deepEqual(result.token_accounts, [
      {
        address: account.publicKey.toBase58(),
        mint: mint.publicKey.toBase58(),
        amount: 5,
        owner: holder.publicKey.toBase58(),
        frozen: false,
        delegated_amount: 0,
        token_extensions: {
          transfer_fee_amount: { withheld_amount: 0 },
          memo_transfer: { require_incoming_transfer_memos: true },
          cpi_guard: { lock_cpi: true },
        },
      },
    ]);
    const [plain] = (await ask('getTokenAccounts', { owner })).result.token_accounts;
    assert.equal('token_extensions' in plain, false);
    const shown = (await ask('getAsset', { id: mint.publicKey.toBase58() })).result.mint_extensions;
    assert.deepEqual(shown.default_account_state, { state: 'Initialized' });
    // The program that would make it is not in the chain of the tests.
    const found = (await chain.connection.getAccountInfo(mint.publicKey))!;
    const head = Buffer.of(4, 0, 65, 0);
    const data = Buffer.concat([found.data, head, Buffer.alloc(32), Buffer.of(1), auditor]);
    await chain.setAccount(mint.publicKey.toBase58(), { lamports: found.lamports, owner: programId.toBase58(), data });
    const audited = (await ask('getAsset', { id: mint.publicKey.toBase58() })).result.mint_extensions;
    assert.deepEqual(audited.confidential_transfer_mint, {
      authority: null,
      auto_approve_new_accounts: true,
      auditor_elgamal_pubkey: auditor.toString('base64'),
    });
  });

  test('a Core asset has the authority of its collection', async () => {
    const [asset, group] = [Keypair.generate().publicKey, Keypair.generate().publicKey];
    const text = (value: string) => Buffer.concat([Buffer.from([value.length, 0, 0, 0]), Buffer.from(value)]);
    const key = (value: string) => new PublicKey(value).toBuffer();
    const set = (address: PublicKey, data: Buffer) =>
      chain.setAccount(address.toBase58(), { lamports: 1_000_000, owner: CORE_PROGRAM, data });
    await set(
      asset,
      Buffer.concat([Buffer.of(1), key(owner), Buffer.of(2), group.toBuffer(), text('A'), text(''), Buffer.of(0)]),
    );
    await set(
      group,
      Buffer.concat([Buffer.of(5), key(creator), text('Group'), text(''), Buffer.of(7, 0, 0, 0, 6, 0, 0, 0)]),
    );
    const { result } = await ask('getAssetBatch', { ids: [asset.toBase58(), group.toBase58()] });
    const [one, all] = result;
    assert.deepEqual(
      [one.interface, one.ownership.owner, one.authorities[0].address],
      ['MplCoreAsset', owner, creator],
    );
    assert.deepEqual(one.grouping, [{ group_key: 'collection', group_value: group.toBase58() }]);
    assert.deepEqual([one.is_agent, typeof one.asset_signer], [false, 'string']);
    assert.deepEqual(
      [all.interface, all.mpl_core_info],
      ['MplCoreCollection', { num_minted: 7, current_size: 6, plugins_json_version: 1 }],
    );
  });

  test('an asset with an identity is an agent; a plugin of the collection freezes the assets that have none of the kind; plugins of later types are listed', async () => {
    const text = (value: string) => Buffer.concat([Buffer.from([value.length, 0, 0, 0]), Buffer.from(value)]);
    const key = (value: string) => new PublicKey(value).toBuffer();
    const u64 = (value: number) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
    const count = (value: number) => Buffer.of(value, 0, 0, 0);
    /** The account with plugins: a header, the plugins, and a registry with their places. */
    const withPlugins = (base: Buffer, own: readonly Buffer[], external: readonly Buffer[] = []): Buffer => {
      let at = base.length + 9;
      const places = [...own, ...external].map((one) => {
        const place = at;
        at += one.length;
        return place;
      });
      const records = own.map((one, number) => Buffer.concat([Buffer.of(one[0]!, 2), u64(places[number]!)]));
      const others = external.map((one, number) =>
        Buffer.concat([Buffer.of(one[0]!, 2, 0), u64(places[own.length + number]!), Buffer.of(0, 0)]),
      );
      const registry = [Buffer.of(4), count(own.length), ...records, count(external.length), ...others];
      return Buffer.concat([base, Buffer.of(3), u64(at), ...own, ...external, ...registry]);
    };
    const PERMANENT_FREEZE = 5;
    const FREEZE = 1;
    const AGENT = 6;
    const set = async (data: Buffer, address = Keypair.generate().publicKey.toBase58()) => {
      await chain.setAccount(address, { lamports: 1_000_000, owner: CORE_PROGRAM, data });
      return address;
    };
    const groupOf = (frozen: number) =>
      set(
        withPlugins(Buffer.concat([Buffer.of(5), key(creator), text('Group'), text(''), count(3), count(3)]), [
          Buffer.of(PERMANENT_FREEZE, frozen),
        ]),
      );
    const assetOf = (group: string, own: readonly Buffer[], external: readonly Buffer[] = []) =>
      set(
        withPlugins(
          Buffer.concat([Buffer.of(1), key(owner), Buffer.of(2), key(group), text('A'), text(''), Buffer.of(0)]),
          own,
          external,
        ),
      );
    const [frozen, free] = [await groupOf(1), await groupOf(0)];
    const ids = [
      await assetOf(frozen, []),
      await assetOf(frozen, [Buffer.of(PERMANENT_FREEZE, 0)]),
      await assetOf(frozen, [Buffer.of(FREEZE, 0)]),
      await assetOf(free, []),
      await assetOf(free, [Buffer.of(FREEZE, 1)]),
      frozen,
      free,
    ];
    const { result } = await ask('getAssetBatch', { ids });
    assert.deepEqual(
      result.map((one: { ownership: { frozen: boolean } }) => one.ownership.frozen),
      [true, false, true, false, true, true, false],
    );
    const uri = 'https://agents.example/1.json';
    const agent = await assetOf(free, [], [Buffer.concat([Buffer.of(AGENT), text(uri)])]);
    const { result: shown } = await ask('getAsset', { id: agent });
    assert.deepEqual([shown.is_agent, shown.unknown_external_plugins], [true, undefined]);
    assert.deepEqual(
      shown.external_plugins.map((one: { type: string; adapter_config: object }) => [one.type, one.adapter_config]),
      [['AgentIdentity', { uri }]],
    );
    // mpl-core 1.10 drops plugins of types that it does not know; here they are bytes, beside the known ones.
    const LATER = 200;
    const newer = await assetOf(free, [Buffer.of(FREEZE, 0), Buffer.of(LATER, 1, 2, 3)], [Buffer.of(LATER, 4, 5)]);
    const bytesOf = (list: readonly { type: number; data?: string; unknown_adapter_config?: string }[]) =>
      list.map(({ type, data, unknown_adapter_config }) => [
        type,
        Buffer.from(data ?? unknown_adapter_config!, 'base64').toJSON().data,
      ]);
    const own = { ownerAddress: owner, tokenType: 'nonFungible' };
    for (const [method, params] of [
      ['getAsset', { id: newer }],
      ['getAssetBatch', { ids: [newer] }],
      ['getAssetsByOwner', { ownerAddress: owner }],
      ['searchAssets', own],
    ] as const) {
      const { result: answer } = await ask(method, params);
      const one = [answer.items ?? answer].flat().find(({ id }: { id: string }) => id === newer);
      assert.deepEqual(Object.keys(one.plugins), ['freeze_delegate'], method);
      assert.deepEqual(bytesOf(one.unknown_plugins), [[LATER, [LATER, 1, 2, 3]]], method);
      assert.deepEqual(bytesOf(one.unknown_external_plugins), [[LATER, [LATER, 4, 5]]], method);
    }
  });

  test('inscriptions are shown when asked for, of the asset that they name', async () => {
    const [asset, other] = [nft.toBase58(), Keypair.generate().publicKey.toBase58()];
    const data = Keypair.generate().publicKey.toBase58();
    const text = (value: string) =>
      Buffer.concat([Buffer.from(Uint32Array.of(value.length).buffer), Buffer.from(value)]);
    const discriminator = createHash('sha256').update('account:InscriptionV3').digest().subarray(0, 8);
    const inscribe = (root: string, hash: Buffer) =>
      chain.setAccount(inscriptionAddress(asset), {
        lamports: 1_000_000,
        owner: INSCRIPTION_PROGRAM,
        data: Buffer.concat([
          discriminator,
          ...[creator, root, data].map((key) => new PublicKey(key).toBuffer()),
          Buffer.from(BigUint64Array.of(2n ** 53n + 1n).buffer),
          Buffer.from(Uint32Array.of(202).buffer),
          text('image/png'),
          text('base64'),
          hash,
          Buffer.alloc(7),
        ]),
      });
    const show = async (method: string, params: object) => {
      const options = { showInscription: true };
      const { result } = await ask(method, { ...params, options });
      return (result.items ?? [result].flat()).map((one: { inscription?: object }) => one.inscription);
    };
    const shown = {
      authority: creator,
      order: 2 ** 53,
      size: 202,
      contentType: 'image/png',
      encoding: 'base64',
      inscriptionDataAccount: data,
    };
    await inscribe(asset, Buffer.concat([Buffer.of(1), text('hash')]));
    assert.deepEqual(await show('getAsset', { id: asset }), [{ ...shown, validationHash: 'hash' }]);
    await inscribe(asset, Buffer.of(0));
    const owned = await show('getAssetsByOwner', { ownerAddress: owner });
    // The owner has a Core asset too.
    assert.deepEqual(
      owned.filter((one: unknown) => one !== undefined),
      [{ ...shown, validationHash: null }],
    );
    assert.equal((await ask('getAsset', { id: asset })).result.inscription, undefined);
    await inscribe(other, Buffer.of(0));
    assert.deepEqual(await show('getAssetBatch', { ids: [asset, asset] }), [undefined, undefined]);
  });

  test('a batch keeps its order, repeats ids and has null for unknown ones', async () => {
    const [id, unknown] = [nft.toBase58(), Keypair.generate().publicKey.toBase58()];
    const { result } = await ask('getAssets', { ids: [id, unknown, id] });
    assert.deepEqual(
      result.map((one: { id: string } | null) => one?.id ?? null),
      [id, null, id],
    );
    assert.deepEqual((await ask('getAsset', { id: unknown })).error?.message, 'Asset Not Found');
  });

  test('params by position, as the first versions of the plugin of umi send them', async () => {
    const [id, ownerAddress] = [nft.toBase58(), owner];
    const sortBy = { sortBy: 'id', sortDirection: 'asc' };
    const search = [null, null, 'V1_NFT', owner, null, creator, true, creator, ['collection', collection], null, false];
    for (const [method, values, named] of [
      ['getAsset', [id], { id }],
      ['getAsset', [id, { showFungible: true }], { id, options: { showFungible: true } }],
      ['getAssets', [[id, id]], { ids: [id, id] }],
      ['getAssetsByOwner', [owner, sortBy, 3, 1, null, null], { ownerAddress, sortBy, limit: 3, page: 1 }],
      ['getAssetsByOwner', [owner, null, null, null, null, null, null, id], { ownerAddress, cursor: id }],
      [
        'searchAssets',
        [...search, ...Array(9).fill(null), 5, 1, null, null, null],
        {
          interface: 'V1_NFT',
          ownerAddress,
          creatorAddress: creator,
          creatorVerified: true,
          authorityAddress: creator,
          grouping: ['collection', collection],
          frozen: false,
          limit: 5,
          page: 1,
        },
      ],
      ['getTokenAccounts', [owner, id, 10], { owner, mint: id, limit: 10 }],
    ] as const) {
      const answer = await ask(method, values);
      assert.equal(answer.error, undefined, `${method}: ${answer.error?.message}`);
      assert.deepEqual(withoutSlots(answer), withoutSlots(await ask(method, named)), method);
      assert.ok(JSON.stringify(answer).includes(id) || method === 'getAssetsByOwner', method);
    }
  });

  test('token accounts of an owner and of a mint, in pages', async () => {
    const { connection } = chain;
    const mint = await createMint(connection, payer, payer.publicKey, null, 2);
    const other = Keypair.generate().publicKey;
    const accounts: string[] = [];
    for (let n = 0; n < 5; n += 1) {
      const account = await createAccount(connection, payer, mint, other, Keypair.generate());
      if (n > 0) await mintTo(connection, payer, mint, account, payer, n);
      accounts.push(account.toBase58());
    }
    const [address, id] = [other.toBase58(), mint.toBase58()];
    const sorted = accounts
      .slice(1)
      .sort((a, b) => Buffer.compare(new PublicKey(a).toBuffer(), new PublicKey(b).toBuffer()));
    for (const params of [{ owner: address }, { ownerAddress: address }, { mint: id }, { mint: id, owner: address }]) {
      const seen: string[] = [];
      let cursor: string | undefined;
      do {
        const { result } = await ask('getTokenAccounts', { ...params, limit: 3, cursor });
        seen.push(...result.token_accounts.map((one: { address: string }) => one.address));
        cursor = result.cursor;
      } while (cursor !== undefined);
      assert.deepEqual(seen, sorted);
    }
    const all = await ask('getTokenAccounts', { owner: address, options: { showZeroBalance: true } });
    assert.equal(all.result.total, 5);
    const second = await ask('getTokenAccounts', { owner: address, page: 2, limit: 3 });
    assert.deepEqual([second.result.token_accounts.length, second.result.page], [1, 2]);
    const between = await ask('getTokenAccounts', { owner: address, after: sorted[0], before: sorted[3] });
    assert.deepEqual(
      between.result.token_accounts.map((one: { address: string }) => one.address),
      sorted.slice(1, 3),
    );
  });

  test('an error says why there is no answer', async () => {
    const id = nft.toBase58();
    const cases: readonly (readonly [string, unknown, RegExp])[] = [
      ['getAsset', {}, /Pubkey Validation Err/],
      ['getAsset', { id: 'x' }, /Pubkey Validation Err: x is invalid/],
      ['getAsset', [], /params must be an object/],
      ['getAsset', [id, null, null], /params must be an object/],
      ['getAsset', ['x'], /Pubkey Validation Err: x is invalid/],
      ['getAsset', [id, { showAll: true }], /unknown option showAll/],
      ['getAsset', { id, options: { showAll: true } }, /unknown option showAll/],
      ['getAsset', { id, options: {}, displayOptions: {} }, /cannot be used together/],
      ['getAssetBatch', { ids: Array.from({ length: 1_001 }, () => id) }, /Batch size should not be greater than 1000/],
      ['getTokenAccounts', { owner, limit: 1_001 }, /Limit should not be greater than 1000/],
      ['getTokenAccounts', { owner, page: 0 }, /No Pagination Method Selected/],
      ['getTokenAccounts', { owner, page: 1, after: id }, /Only one pagination parameter/],
      ['getTokenAccounts', { owner, cursor: '!' }, /Cursor Validation Err: ! is invalid/],
      ['getTokenAccounts', {}, /mint or owner must be given/],
    ];
    for (const [method, params, text] of cases) {
      const { error } = await ask(method, params);
      assert.equal(error?.code, -32602, `${method} ${JSON.stringify(params).slice(0, 100)}`);
      assert.match(error.message, text);
    }
    // Some clients always send a page, 0 when they page in another way.
    assert.equal((await ask('getTokenAccounts', { owner, page: 0, after: held.toBase58() })).error, undefined);
  });

  test('assets of an owner: NFTs and Core assets, tokens too when asked for, in pages by id', async () => {
    const { connection } = chain;
    const wallet = Keypair.generate().publicKey;
    const [one, many] = [
      await createMint(connection, payer, payer.publicKey, null, 0),
      await createMint(connection, payer, payer.publicKey, null, 3),
    ];
    for (const [mint, amount] of [
      [one, 1],
      [many, 2_500],
    ] as const)
      await mintTo(connection, payer, mint, await createAccount(connection, payer, mint, wallet), payer, amount);
    await setAuthority(connection, payer, one, payer, AuthorityType.MintTokens, null);
    await setMetadata(one.toBase58(), { name: 'Owned' });
    const [core, group] = [Keypair.generate().publicKey, Keypair.generate().publicKey];
    const text = (value: string) => Buffer.concat([Buffer.from([value.length, 0, 0, 0]), Buffer.from(value)]);
    const set = (address: PublicKey, data: Buffer) =>
      chain.setAccount(address.toBase58(), { lamports: 1_000_000, owner: CORE_PROGRAM, data });
    const authority = payer.publicKey.toBuffer();
    await set(
      core,
      Buffer.concat([
        Buffer.of(1),
        wallet.toBuffer(),
        Buffer.of(2),
        group.toBuffer(),
        text('A'),
        text(''),
        Buffer.of(0),
      ]),
    );
    const collectionOf = (size: number) =>
      Buffer.concat([Buffer.of(5), authority, text('Group'), text(''), Buffer.of(size, 0, 0, 0, size, 0, 0, 0)]);
    await set(group, collectionOf(1));
    const ids = async (method: string, params: object): Promise<string[]> => {
      const { result, error } = await ask(method, params);
      assert.equal(error, undefined, error?.message);
      return result.items.map(({ id }: { id: string }) => id);
    };
    const sorted = (list: readonly PublicKey[]) =>
      [...list].sort((a, b) => Buffer.compare(a.toBuffer(), b.toBuffer())).map((key) => key.toBase58());
    const ownerAddress = wallet.toBase58();
    assert.deepEqual(await ids('getAssetsByOwner', { ownerAddress }), sorted([one, core]));
    assert.deepEqual(
      await ids('getAssetsByOwner', { ownerAddress, displayOptions: { showFungible: true } }),
      sorted([one, many, core]),
    );
    assert.deepEqual(
      await ids('getAssetsByOwner', { ownerAddress, sortBy: { sortBy: 'id', sortDirection: 'desc' } }),
      sorted([one, core]).reverse(),
    );
    const first = await ask('getAssetsByOwner', { ownerAddress, limit: 1, options: { showNativeBalance: true } });
    assert.deepEqual(first.result.nativeBalance, { lamports: 0, price_per_sol: 0, total_price: 0 });
    const { cursor } = first.result;
    assert.deepEqual(await ids('getAssetsByOwner', { ownerAddress, cursor }), sorted([one, core]).slice(1));
    assert.deepEqual(await ids('searchAssets', { ownerAddress, tokenType: 'fungible' }), [many.toBase58()]);
    assert.deepEqual(await ids('searchAssets', { ownerAddress, name: 'Owned', sortBy: null }), [one.toBase58()]);
    assert.deepEqual(await ids('searchAssets', { ownerAddress, delegateAddress: collection }), []);
    // The Rust SDK sends all members that it knows.
    const unset = { collectionNft: null, createdAt: null, isAgent: null, tree: null, not: null, options: null };
    assert.deepEqual(await ids('searchAssets', { ...unset, ownerAddress, name: 'Owned' }), [one.toBase58()]);
    assert.deepEqual(await ids('searchAssets', { ownerAddress, supply: 1 }), sorted([one, core]));
    assert.deepEqual(await ids('searchAssets', { ownerAddress, supply: 2 }), []);
    for (const key of [one, core, many]) {
      const supplyMint = key.toBase58();
      const isToken = key === many;
      for (const base of [{}, { ownerAddress }, { authorityAddress: creator }]) {
        const isListed = !isToken && !('authorityAddress' in base && key === core);
        assert.deepEqual(await ids('searchAssets', { ...base, supplyMint }), isListed ? [supplyMint] : []);
      }
      assert.deepEqual(await ids('searchAssets', { supplyMint, tokenType: 'all' }), [supplyMint]);
      assert.deepEqual(await ids('searchAssets', { supplyMint, compressed: true }), []);
    }
    assert.deepEqual(await ids('searchAssets', { supplyMint: Keypair.generate().publicKey.toBase58() }), []);
    const any = { conditionType: 'any', ownerAddress, supplyMint: many.toBase58() };
    assert.deepEqual(await ids('searchAssets', any), sorted([one, core]));
    assert.deepEqual(await ids('searchAssets', { ...any, tokenType: 'all' }), sorted([one, core, many]));
    // Nothing is at this address.
    assert.deepEqual(
      await ids('searchAssets', { ...any, supplyMint: collection, limit: 1 }),
      sorted([one, core]).slice(0, 1),
    );
    // Metadata from before there were token standards: a token is fungible, and what is alone is of no known kind.
    const old = { tokenStandard: null, collection: null } as const;
    await setMetadata(many.toBase58(), { ...old, name: 'Old' });
    await setMetadata(one.toBase58(), { ...old, name: 'Owned' });
    const kinds = await ask('getAssetBatch', { ids: [many, one].map((key) => key.toBase58()) });
    assert.deepEqual(
      kinds.result.map((asset: { interface: string }) => asset.interface),
      ['FungibleToken', 'Custom'],
    );
    const ofKind = (kind: string) => ids('searchAssets', { ownerAddress, tokenType: 'all', interface: kind });
    assert.deepEqual([await ofKind('FungibleToken'), await ofKind('Custom')], [[many.toBase58()], [one.toBase58()]]);
    await chain.setAccount(metadataAddress(many.toBase58()), null);
    await setMetadata(one.toBase58(), { name: 'Owned' });
    const without = (not: object) => ids('searchAssets', { ownerAddress, not });
    assert.deepEqual(await without({ collections: [collection], owners: null }), [core.toBase58()]);
    assert.deepEqual(await without({ collections: [group.toBase58()], creators: [] }), [one.toBase58()]);
    assert.deepEqual(await without({ creators: [[...new PublicKey(creator).toBytes()]] }), [core.toBase58()]);
    assert.deepEqual(await without({ authorities: [creator] }), [core.toBase58()]);
    assert.deepEqual(await without({ owners: [ownerAddress] }), []);
    assert.deepEqual(await ids('searchAssets', { ownerAddress, grouping: ['collection', collection] }), [
      one.toBase58(),
    ]);
    const { result } = await ask('getAssetsByOwner', { ownerAddress, tokenType: 'fungible' });
    assert.deepEqual([result.items[0].token_info.balance, result.items[0].ownership.owner], [2_500, ownerAddress]);
    // A Core collection counts its assets.
    const groupParams = { groupKey: 'collection', groupValue: group.toBase58() };
    assert.deepEqual(await ids('getAssetsByGroup', groupParams), [core.toBase58()]);
    assert.deepEqual((await ask('getGrouping', groupParams)).result, {
      group_key: 'collection',
      group_name: 'Group',
      group_size: 1,
    });
    assert.deepEqual(
      await ids('getAssetsByAuthority', { authorityAddress: payer.publicKey.toBase58() }),
      sorted([core, group]),
    );
    await set(group, collectionOf(2));
    assert.match(
      (await ask('getAssetsByGroup', groupParams)).error!.message,
      /has 2 assets, of which 1 have an account/,
    );
    const grouping = ['collection', group.toBase58()];
    assert.deepEqual(await ids('searchAssets', { grouping, compressed: false }), [core.toBase58()]);
  });

  test('prints of a master edition, with the mints that only their transactions name', async () => {
    const [master, mint] = [Keypair.generate().publicKey.toBase58(), nft.toBase58()];
    const u64 = (value: number) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
    const set = (address: string, data: Buffer) =>
      chain.setAccount(address, { lamports: 1_000_000, owner: METADATA_PROGRAM, data });
    await set(editionAddress(master), Buffer.concat([Buffer.of(6), u64(1), Buffer.of(1), u64(10)]));
    await set(
      editionAddress(mint),
      Buffer.concat([Buffer.of(1), new PublicKey(editionAddress(master)).toBuffer(), u64(4)]),
    );
    // The transaction that made it names both.
    const printed = SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: payer.publicKey, lamports: 1 });
    for (const key of [mint, editionAddress(mint)])
      printed.keys.push({ pubkey: new PublicKey(key), isSigner: false, isWritable: false });
    await sendAndConfirmTransaction(chain.connection, new Transaction().add(printed), [payer]);
    const { result } = await ask('getNftEditions', { mint: master, limit: 5 });
    assert.deepEqual(
      [result.supply, result.max_supply, result.master_edition_address],
      [1, 10, editionAddress(master)],
    );
    assert.deepEqual(result.editions, [{ mint, edition_address: editionAddress(mint), edition: 4 }]);
    assert.deepEqual((await ask('getNftEditions', { mint: master, page: 2 })).result.editions, []);
    // A print whose transaction the node no longer has: the others come, and this one is named.
    const old = Keypair.generate().publicKey.toBase58();
    await set(
      editionAddress(old),
      Buffer.concat([Buffer.of(1), new PublicKey(editionAddress(master)).toBuffer(), u64(2)]),
    );
    const partly = (await ask('getNftEditions', { mint: master, limit: 5 })).result;
    assert.deepEqual([partly.editions.map((one: { mint: string }) => one.mint), partly.total], [[mint], 1]);
    const why = 'the mint of print 2 is unknown: the upstream no longer has the transaction that made it';
    assert.deepEqual(partly.errors, [{ id: editionAddress(old), error: why }]);
    assert.match((await ask('getNftEditions', { mint: master, after: mint })).error!.message, /has pages only/);
    assert.equal((await ask('getNftEditions', { mint: collection })).error!.message, 'Asset Not Found');
  });

  test('lists that cannot be complete are refused by name, and so are wrong params', async () => {
    const key = collection;
    const tree = encode32(treeAuthority(new PublicKey(key).toBytes()));
    await chain.setAccount(tree, { lamports: 1_000_000, owner: BUBBLEGUM_PROGRAM, data: Buffer.alloc(96) });
    for (const [method, params, why] of [
      ['getAssetsByCreator', { creatorAddress: key }, /no list of a creator is complete/],
      ['getAssetsByGroup', { groupKey: 'collection', groupValue: key }, /is no Core collection/],
      ['searchAssets', { burnt: true }, /needs ownerAddress/],
      ['searchAssets', { conditionType: 'any' }, /needs ownerAddress/],
      ['searchAssets', { conditionType: 'any', ownerAddress: key, frozen: true }, /all assets by frozen is complete/],
      ['searchAssets', { conditionType: 'any', compressed: false }, /all assets by compressed is complete/],
      ['searchAssets', { tree: key }, /not all trees/],
      ['searchAssets', { compressed: true, creatorAddress: key }, /not all trees/],
      ['searchAssets', { compressed: true, grouping: ['collection', key] }, /not all trees/],
      ['getAssetsByOwner', { ownerAddress: key, options: { requireFullIndex: true } }, /not all trees/],
      [
        'getAssetsByAuthority',
        { authorityAddress: key, options: { requireFullIndex: true } },
        /lists by authority need Token[^ ]+ in das.follow.programs/,
      ],
      ['getAssetsByAuthority', { authorityAddress: tree }, /that of a tree of compressed assets/],
      ['searchAssets', { authorityAddress: tree, compressed: true }, /that of a tree of compressed assets/],
      ['getGrouping', { groupKey: 'collection', groupValue: key }, /is no Core collection/],
    ] as const) {
      const { error } = await ask(method, params);
      assert.match(String(error?.message), why, `${method} ${JSON.stringify(params)}`);
      assert.equal(error?.code, -32000);
    }
    for (const [method, params, why] of [
      ['getAssetsByCreator', { creatorAddress: key, onlyVerified: 1 }, /onlyVerified must be true or false/],
      ['getAssetsByGroup', { groupKey: 'family', groupValue: key }, /only key of a group is collection/],
      ['searchAssets', { name: 'A' }, /^Validation Error: Owner address must be provided/],
      ['searchAssets', { ownerAddress: key, isAgent: true }, /isAgent is not supported/],
      ['searchAssets', { ownerAddress: key, createdAt: { after: 1 } }, /createdAt is not supported/],
      ['searchAssets', { ownerAddress: key, collectionNft: false }, /collectionNft is not supported/],
      ['searchAssets', { ownerAddress: key, colour: null }, /colour is not supported/],
      ['searchAssets', { supplyMint: 'me' }, /^Pubkey Validation Err: me is invalid/],
      ['searchAssets', { ownerAddress: key, supply: 2 ** 53 }, /supply must be a whole number below 2\^53/],
      ['searchAssets', { ownerAddress: key, royaltyAmount: 0.5 }, /royaltyAmount must be a whole number/],
      ['searchAssets', { ownerAddress: key, negate: true }, /negate is not supported/],
      ['searchAssets', { ownerAddress: key, conditionType: 'none' }, /conditionType must be all or any/],
      ['searchAssets', { ownerAddress: key, conditionType: 'any', frozen: [] }, /frozen must be a boolean/],
      ['searchAssets', { ownerAddress: key, frozen: [] }, /frozen must be a boolean/],
      ['searchAssets', { ownerAddress: key, delegate: key, delegateAddress: key }, /cannot be used together/],
      ['searchAssets', { ownerAddress: key, not: { names: [] } }, /not.names is not supported/],
      ['searchAssets', { ownerAddress: key, not: { owners: key } }, /not.owners must be a list/],
      ['searchAssets', { ownerAddress: key, not: { owners: [[1]] } }, /^Pubkey Validation Err/],
      ['searchAssets', { ownerAddress: key, interface: 'NFT' }, /interface must be one of V1_NFT,/],
      ['searchAssets', { ownerAddress: key, ownerType: 'many' }, /ownerType must be one of single, token/],
      ['searchAssets', { ownerAddress: key, royaltyTargetType: 'all' }, /royaltyTargetType must be one of creators,/],
      ['getAssetsByOwner', { ownerAddress: key, tokenType: 'coins' }, /tokenType must be one of/],
      ['getAssetsByOwner', { ownerAddress: key, sortBy: { sortBy: 'size' } }, /sortBy must be one of/],
      [
        'getAssetsByOwner',
        { ownerAddress: key, before: key, sortBy: { sortBy: 'created' } },
        /^Pagination Sorting Error/,
      ],
      ['getAssetsByOwner', { ownerAddress: 'me' }, /^Pubkey Validation Err: me is invalid/],
    ] as const) {
      const { error } = await ask(method, params);
      assert.match(String(error?.message), why, `${method} ${JSON.stringify(params)}`);
      assert.equal(error?.code, -32602);
    }
  });

  test('followed keys are filled by a job and kept current by blocks, in every order and with every paging', async (t) => {
    const family = Keypair.generate().publicKey.toBase58();
    const make = async (to: string) => {
      const mint = await createMint(chain.connection, payer, payer.publicKey, null, 0);
      const account = await createAccount(chain.connection, payer, mint, new PublicKey(to), Keypair.generate());
      await setMetadata(mint.toBase58(), { collection: { key: family, verified: true } });
      const mintOne = createMintToInstruction(mint, account, payer.publicKey, 1);
      // As the transaction that made it would, it names the metadata and its program.
      for (const [key, isWritable] of [
        [metadataAddress(mint.toBase58()), true] as const,
        [METADATA_PROGRAM, false] as const,
      ])
        mintOne.keys.push({ pubkey: new PublicKey(key), isSigner: false, isWritable });
      await sendAndConfirmTransaction(chain.connection, new Transaction().add(mintOne), [payer]);
      return mint.toBase58();
    };
    const [first, second] = [await make(payer.publicKey.toBase58()), await make(creator)];
    const plugins = ['access', 'proxy', 'token-metadata', 'das'];
    const offChain = { allowCidrs: ['127.0.0.1/32'], allowHttp: true, ttlMs: 500 };
    const following = await startDaemon({
      chain,
      config: { plugins, das: { follow: { collections: [family] } }, 'token-metadata': { offChain } },
    });
    t.after(() => following.stop());
    const call = async (method: string, params: object): Promise<Answer> => {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
      const url = `${following.apiUrl}/?api-key=${following.key}`;
      return (await (await fetch(url, { method: 'POST', body })).json()) as Answer;
    };
    const list = (more: object = {}): Promise<Answer> =>
      call('getAssetsByGroup', { groupKey: 'collection', groupValue: family, ...more });
    const ids = async (more: object = {}): Promise<string[]> =>
      (await list(more)).result?.items.map(({ id }: { id: string }) => id) ?? [];
    const untilSealed = (holds: () => Promise<boolean>): Promise<boolean> =>
      until(async () => {
        const isSo = await holds();
        if (!isSo) await chain.seal(1);
        if (!isSo) await sleep(50);
        return isSo;
      }, String(holds));
    await untilSealed(async () => (await ids()).length === 2);
    const third = await make(buyer);
    await untilSealed(async () => (await ids()).length === 3);
    const bytes = (id: string) => new PublicKey(id).toBuffer();
    const byId = [first, second, third].sort((a, b) => Buffer.compare(bytes(a), bytes(b)));
    assert.deepEqual(await ids(), byId);
    assert.deepEqual(
      await ids({ sortBy: { sortBy: 'id', sortDirection: 'desc' }, limit: 2 }),
      byId.toReversed().slice(0, 2),
    );
    assert.deepEqual(await ids({ after: byId[0], before: byId[2] }), [byId[1]]);
    assert.deepEqual(await ids({ cursor: byId[1] }), [byId[2]]);
    assert.deepEqual(await ids({ sortBy: { sortBy: 'created' }, limit: 1, page: 1 }), [third]);
    // Behind what the daemon would read of a list, which is not that long.
    for (const page of [101, 5_000_000])
      assert.deepEqual((await list({ page, limit: 1_000 })).result?.items, [], `page ${page}`);
    // A text is shown again while nothing of it has changed, neither on the chain nor behind its address.
    const asset = async (id: string) => (await call('getAsset', { id })).result;
    const shown = await asset(first);
    assert.equal(shown.ownership.owner, payer.publicKey.toBase58());
    assert.equal(shown.content.metadata.description, 'A picture');
    assert.deepEqual(await asset(first), { ...shown, last_indexed_slot: (await asset(first)).last_indexed_slot });
    documents.setFallback(answer(200, {}, JSON.stringify({ description: 'Another one' })));
    await untilSealed(async () => (await asset(first)).content.metadata.description === 'Another one');
    // Its owner changes: it is the one that changed last.
    const held = (await chain.connection.getTokenLargestAccounts(new PublicKey(first))).value[0]!.address;
    const to = await createAccount(
      chain.connection,
      payer,
      new PublicKey(first),
      new PublicKey(buyer),
      Keypair.generate(),
    );
    await transfer(chain.connection, payer, held, to, payer, 1);
    const sortBy = { sortBy: 'recent_action', sortDirection: 'desc' };
    // The account that it moves to is a change of its own.
    await untilSealed(async () => (await asset(first)).ownership.owner === buyer);
    assert.deepEqual(await ids({ sortBy, page: 1, limit: 1 }), [first]);
    const { result } = await list({ sortBy, page: 1, limit: 1, options: { showGrandTotal: true } });
    assert.deepEqual([result.items[0].ownership.owner, result.grand_total], [buyer, 3]);
    assert.ok(result.last_indexed_slot > 0);
    assert.deepEqual((await ids({ sortBy: { ...sortBy, sortDirection: 'asc' }, page: 3, limit: 1 }))[0], first);

    // Its mint and its metadata come with one block, which has the time of its creation.
    const whole = Keypair.generate();
    await setMetadata(whole.publicKey.toBase58(), { collection: { key: family, verified: true } });
    const initialize = createInitializeMint2Instruction(whole.publicKey, 0, payer.publicKey, null);
    for (const key of [metadataAddress(whole.publicKey.toBase58()), METADATA_PROGRAM])
      initialize.keys.push({ pubkey: new PublicKey(key), isSigner: false, isWritable: key !== METADATA_PROGRAM });
    const open = SystemProgram.createAccount({
      fromPubkey: payer.publicKey,
      newAccountPubkey: whole.publicKey,
      programId: TOKEN_PROGRAM_ID,
      space: MINT_SIZE,
      lamports: await chain.connection.getMinimumBalanceForRentExemption(MINT_SIZE),
    });
    const made = new Transaction().add(open, initialize);
    const signature = await sendAndConfirmTransaction(chain.connection, made, [payer, whole]);
    const options = { showSystemMetadata: true };
    const id = whole.publicKey.toBase58();
    await untilSealed(async () => (await ids()).includes(id));
    const transaction = await chain.connection.getTransaction(signature, { maxSupportedTransactionVersion: 0 });
    const createdAt = transaction!.blockTime as number;
    assert.ok(createdAt > 0);
    const system = { created_at: new Date(createdAt * 1_000).toISOString().replace('.000', ''), createdAt };
    // Twice: the second one is the text of the first.
    for (const _ of [1, 2]) {
      assert.equal((await call('getAsset', { id })).result.system, undefined);
      assert.deepEqual((await call('getAsset', { id, options })).result.system, system);
      const { items } = (await list({ options })).result;
      assert.deepEqual(
        items.map((one: { id: string; system?: object }) => [one.id, one.system]),
        (await ids()).map((one) => [one, one === id ? system : undefined]),
      );
    }
  });

  test('helius-sdk reads them', { skip: sdk.skip }, async () => {
    const restore = redirectHostedClients(daemon.apiUrl);
    try {
      const helius = sdk.module.createHelius({ apiKey: daemon.key });
      const found = await helius.getAsset({ id: nft.toBase58(), options: { showCollectionMetadata: true } });
      assert.equal(found.ownership.owner, owner);
      const batch = await helius.getAssetBatch({ ids: [nft.toBase58()] });
      assert.equal(batch[0]?.id, nft.toBase58());
      const accounts = await helius.getTokenAccounts({ owner });
      assert.equal(accounts.token_accounts?.[0]?.mint, nft.toBase58());
    } finally {
      restore();
    }
  });
});
