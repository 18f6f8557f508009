import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { skipWithoutFixtures } from '../../../test/helpers/fixtures.ts';
import { recordedAccounts } from '../../../test/helpers/recorded-accounts.ts';
import { readTransferFeeConfig, transferFee } from './amounts.ts';
import { decodeCoreAsset, decodeCoreCollection } from './core.ts';
import type { RawAccount } from './decoded.ts';
import { decodeEdition, decodeMetadata } from './metaplex.ts';
import { decodeMint, decodeTokenAccount, decodeTokenMetadata, findExtension, readMetadataPointer } from './token.ts';

const DECODERS: Readonly<Record<string, (account: RawAccount) => { readonly value: unknown }>> = {
  mint: decodeMint,
  tokenAccount: decodeTokenAccount,
  metadata: decodeMetadata,
  edition: decodeEdition,
  coreAsset: decodeCoreAsset,
  coreCollection: decodeCoreCollection,
};
/** Decoder by kind of account. */
const TAKES: Readonly<Record<string, string>> = { mint2022: 'mint', masterEditionV2: 'edition' };
/** The library behind the expectations writes an absent key as 32 zeros. */
const NOBODY = '11111111111111111111111111111111';

const somebody = (key: string) => (key === NOBODY ? null : key);

suite('recorded accounts', { skip: skipWithoutFixtures }, () => {
  const all = skipWithoutFixtures === false ? recordedAccounts() : [];
  const ofKind = (...kinds: string[]) => {
    const found = all.filter(({ kind }) => kinds.includes(kind));
    assert.ok(found.length > 0);
    return found;
  };

  test('each account is read by its decoder and refused by all others', () => {
    for (const { pubkey, kind, account } of all)
      for (const [name, decode] of Object.entries(DECODERS)) {
        const isIts = name === (TAKES[kind] ?? kind);
        assert.equal(decode(account).value !== null, isIts, `${pubkey} (${kind}) as ${name}`);
      }
  });

  test('mints', () => {
    for (const { account, expected } of ofKind('mint', 'mint2022')) {
      const { value: mint } = decodeMint(account);
      assert.ok(mint !== null);
      assert.deepEqual(
        { ...mint, supply: mint.supply.toString(), isInitialized: true, extensions: null, program: null },
        {
          mintAuthority: expected.mintAuthority,
          freezeAuthority: expected.freezeAuthority,
          supply: expected.supply,
          decimals: expected.decimals,
          isInitialized: expected.isInitialized,
          extensions: null,
          program: null,
        },
      );
    }
  });

  test('extensions of Token-2022 mints', () => {
    for (const { account, expected } of ofKind('mint2022')) {
      const extensions = decodeMint(account).value?.extensions ?? [];
      // The library behind the expectation has no name for one of them.
      const named = extensions.map(({ type, name }) => (type === 16 ? 16 : name));
      assert.deepEqual(named, expected.extensions);
      assert.deepEqual(readMetadataPointer(extensions), expected.metadataPointer ?? null);
      const metadata = findExtension(extensions, 'TokenMetadata');
      const { additionalMetadata, ...texts } = expected.tokenMetadata ?? {};
      if (metadata !== null)
        assert.deepEqual(decodeTokenMetadata(metadata).value, { ...texts, additional: additionalMetadata });
      else assert.equal(expected.tokenMetadata, undefined);
      const fees = expected.transferFeeConfig;
      const fee = (given: { epoch: string; maximumFee: string; transferFeeBasisPoints: number }) => ({
        epoch: BigInt(given.epoch),
        maximum: BigInt(given.maximumFee),
        basisPoints: given.transferFeeBasisPoints,
      });
      assert.deepEqual(
        readTransferFeeConfig(extensions),
        fees === undefined
          ? null
          : {
              feeAuthority: somebody(fees.transferFeeConfigAuthority),
              withdrawAuthority: somebody(fees.withdrawWithheldAuthority),
              withheld: BigInt(fees.withheldAmount),
              older: fee(fees.olderTransferFee),
              newer: fee(fees.newerTransferFee),
            },
      );
    }
  });

  test('the fee of a real transfer: 4 per cent', () => {
    const cwif = ofKind('mint2022').find(({ pubkey }) => pubkey.startsWith('7atgF8KQ'));
    const config = readTransferFeeConfig(decodeMint(cwif!.account).value!.extensions);
    assert.equal(transferFee(config!, 384_000_000n, 600n), 15_360_000n);
  });

  test('token accounts', () => {
    for (const { account, expected } of ofKind('tokenAccount')) {
      const { value: held } = decodeTokenAccount(account);
      assert.ok(held !== null);
      assert.deepEqual(
        {
          mint: held.mint,
          owner: held.owner,
          amount: held.amount.toString(),
          delegate: held.delegate,
          delegatedAmount: held.delegatedAmount.toString(),
          isFrozen: held.isFrozen,
          isNative: held.nativeReserve !== null,
          closeAuthority: held.closeAuthority,
        },
        expected,
      );
    }
  });

  test('metadata of both sizes', () => {
    const sizes = new Set<number>();
    for (const { account, expected } of ofKind('metadata')) {
      const { value: metadata } = decodeMetadata(account);
      assert.ok(metadata !== null);
      const { dataLength, ...known } = expected;
      sizes.add(dataLength);
      const { uses, collectionDetails, programmableConfig } = metadata;
      assert.deepEqual(
        {
          ...metadata,
          uses: uses && true,
          collectionDetails: collectionDetails && true,
          programmableConfig: programmableConfig && true,
        },
        {
          ...known,
          uses: known.uses && true,
          collectionDetails: known.collectionDetails && true,
          programmableConfig: known.programmableConfig && true,
        },
        expected.mint,
      );
    }
    assert.deepEqual([...sizes].sort(), [607, 679]);
  });

  test('editions', () => {
    const [print] = ofKind('edition');
    assert.deepEqual(decodeEdition(print!.account).value, {
      kind: 'print',
      parent: print!.expected.parent,
      edition: BigInt(print!.expected.edition),
    });
    const [master] = ofKind('masterEditionV2');
    // The expectation writes the maximum in hex.
    const maxSupply = BigInt(`0x${master!.expected.maxSupply}`);
    assert.deepEqual(decodeEdition(master!.account).value, { kind: 'master', supply: 60n, maxSupply });
  });

  test('Core assets and collections', () => {
    for (const { account, expected } of ofKind('coreAsset')) {
      const { value: asset } = decodeCoreAsset(account);
      assert.ok(asset !== null);
      assert.deepEqual(
        [asset.owner, asset.name, asset.uri, asset.seq],
        [expected.owner, expected.name, expected.uri, null],
      );
      const { type, address } = expected.updateAuthority;
      assert.deepEqual(asset.updateAuthority, { kind: type.toLowerCase(), address });
      assert.ok(expected.pluginHeader !== undefined || Object.keys(asset.plugins.known).length === 0);
      assert.deepEqual([asset.plugins.unknown, asset.plugins.unknownExternal], [[], []]);
    }
    for (const { account, expected } of ofKind('coreCollection')) {
      const { value: collection } = decodeCoreCollection(account);
      assert.ok(collection !== null);
      const { plugins, ...head } = collection;
      const { updateAuthority, name, uri, numMinted, currentSize } = expected;
      assert.deepEqual(head, { updateAuthority, name, uri, numMinted, currentSize });
      const camel = (name: string) => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
      const expectedNames = [
        'bubblegumV2',
        'permanentFreezeDelegate',
        'permanentBurnDelegate',
        'updateDelegate',
      ].filter((plugin) => expected[plugin] !== undefined);
      assert.deepEqual(Object.keys(plugins.known).map(camel).sort(), expectedNames.sort());
      for (const [name, plugin] of Object.entries(plugins.known)) {
        const its = expected[camel(name)];
        assert.deepEqual(plugin.authority, { type: 'Address', address: its.authority.address });
        assert.equal(String(plugin.offset), its.offset);
      }
    }
  });

  test('observed names: with a blank at the end, with an emoji, empty', () => {
    const names = ofKind('metadata').map(({ account }) => decodeMetadata(account).value?.name ?? '');
    assert.ok(names.includes('Pudgy '));
    assert.ok(names.includes(''));
    assert.ok(names.some((name) => name.includes('🎁')));
  });
});
