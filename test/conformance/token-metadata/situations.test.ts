import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { encode32 } from '../../../src/lib/base58.ts';
import { metadataAddress } from '../../../src/solana/addresses.ts';
import { METADATA_PROGRAM, SYSTEM_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/programs.ts';
import { answer } from '../../helpers/receiver.ts';
import { type MetadataFields, writeMetadata } from '../../helpers/write-metadata.ts';
import { pointerValue, tokenMetadataValue, writeMint } from '../../helpers/write-mint.ts';
import { type Bed, startBed } from './harness.ts';

const keyOf = (number: number): string => encode32(Buffer.alloc(32, number));
const AUTHORITY = keyOf(250);
const POINTER = 18;
const METADATA = 19;

const fields = (mint: string, uri = ''): MetadataFields => ({
  updateAuthority: AUTHORITY,
  mint,
  name: 'Pudgy ',
  symbol: 'P',
  uri,
  sellerFeeBasisPoints: 500,
  creators: null,
  primarySaleHappened: false,
  isMutable: true,
  editionNonce: null,
  tokenStandard: null,
  collection: null,
  uses: null,
  collectionDetails: null,
  programmableConfig: null,
});

suite('each part of an element says itself why it is missing', () => {
  let bed: Bed;
  before(async () => {
    bed = await startBed({ offChain: { timeoutMs: 500, batchTimeoutMs: 60_000 } });
  });
  after(() => bed.stop());

  let next = 1;
  /** A new mint with this account, and its metadata account. */
  function put(data: Uint8Array | null, metadata: Uint8Array | null = null, owner = TOKEN_PROGRAM): string {
    const mint = keyOf(next++);
    if (data !== null) bed.accounts.set(mint, { owner, data });
    if (metadata !== null) bed.accounts.set(metadataAddress(mint), { owner: METADATA_PROGRAM, data: metadata });
    return mint;
  }
  const withUri = (uri: string): string => {
    const mint = put(writeMint());
    bed.accounts.set(metadataAddress(mint), {
      owner: METADATA_PROGRAM,
      data: writeMetadata(fields(mint, uri), true).data,
    });
    return mint;
  };
  const errorsOf = async (mint: string, question: object = {}) => {
    const { status, body } = await bed.ask({ mintAccounts: [mint], ...question });
    assert.equal(status, 200);
    const [{ account, onChainAccountInfo, onChainMetadata, offChainMetadata, legacyMetadata }] = body;
    assert.equal(account, mint);
    assert.equal(legacyMetadata, null);
    return {
      errors: [onChainAccountInfo.error, onChainMetadata.error, offChainMetadata.error],
      filled: [onChainAccountInfo.accountInfo, onChainMetadata.metadata, offChainMetadata.metadata].map(
        (part) => part !== null,
      ),
      uri: offChainMetadata.uri,
    };
  };
  const nothing = (error: string) => ({ errors: [error, error, error], filled: [false, false, false], uri: '' });

  test('keys that are none', async () => {
    for (const mint of [
      '',
      'x',
      'O'.repeat(44),
      '1'.repeat(31),
      `${keyOf(9)}1`,
      'So1111111111111111111111111111111111111111',
    ])
      assert.deepEqual(await errorsOf(mint), nothing('INVALID_PUBKEY'), mint);
  });

  test('accounts that are not there, or no mints', async () => {
    assert.deepEqual(await errorsOf(put(null)), nothing('EMPTY_ACCOUNT'));
    for (const [data, owner] of [
      [Buffer.alloc(0), SYSTEM_PROGRAM],
      [Buffer.alloc(165, 1), TOKEN_PROGRAM],
      [Buffer.alloc(82), TOKEN_PROGRAM],
      [writeMint(), SYSTEM_PROGRAM],
    ] as const)
      assert.deepEqual(await errorsOf(put(data, null, owner)), nothing('INVALID_ACCOUNT'));
  });

  test('mints without metadata, and with metadata that nobody can read', async () => {
    const part = (error: string) => ({ errors: ['', error, error], filled: [true, false, false], uri: '' });
    assert.deepEqual(await errorsOf(put(writeMint())), part('EMPTY_ACCOUNT'));
    assert.deepEqual(await errorsOf(put(writeMint(), Buffer.alloc(679))), part('EMPTY_ACCOUNT'));
    assert.deepEqual(await errorsOf(put(writeMint(), Buffer.alloc(100, 4))), part('INVALID_ACCOUNT'));
    // That of another mint.
    const other = writeMetadata(fields(keyOf(200)), true).data;
    assert.deepEqual(await errorsOf(put(writeMint(), other)), part('INVALID_ACCOUNT'));
  });

  test('a damaged tail is no damage', async () => {
    const mint = put(writeMint());
    const { data, tailAt } = writeMetadata({ ...fields(mint), tokenStandard: 'NonFungible' }, true);
    bed.accounts.set(metadataAddress(mint), {
      owner: METADATA_PROGRAM,
      data: Buffer.concat([data.subarray(0, tailAt), Buffer.alloc(5, 0xff)]),
    });
    const { body } = await bed.ask({ mintAccounts: [mint] });
    const { metadata, error } = body[0].onChainMetadata;
    assert.deepEqual([metadata.data.name, metadata.tokenStandard, metadata.editionNonce, error], ['Pudgy ', '', 0, '']);
    assert.deepEqual(metadata.uses, { useMethod: '', remaining: 0, total: 0 });
  });

  test('documents: not asked for, none, late, and not what they should be', async () => {
    const filled = (document: boolean) => [true, true, document];
    const uri = (name: string): string => `${bed.documents.url}/${name}`;
    bed.documents.route('/good', answer(200, { 'content-type': 'text/plain' }, '\ufeff{"name":"A"}'));
    bed.documents.route('/html', answer(200, { 'content-type': 'application/json' }, '<html>'));
    bed.documents.route('/list', answer(200, {}, '[1]'));
    bed.documents.route('/silent', { kind: 'silent' });
    const cases: readonly (readonly [string, string, boolean])[] = [
      ['good', '', true],
      ['html', 'UNKNOWN', false],
      ['list', 'UNKNOWN', false],
      ['missing', 'UNKNOWN', false],
      ['silent', 'TIMEOUT', false],
    ];
    for (const [name, error, isFilled] of cases) {
      const mint = withUri(uri(name));
      assert.deepEqual(await errorsOf(mint), { errors: ['', '', ''], filled: filled(false), uri: uri(name) });
      const expected = { errors: ['', '', error], filled: filled(isFilled), uri: uri(name) };
      assert.deepEqual(await errorsOf(mint, { includeOffChain: true }), expected, name);
    }
    assert.deepEqual(await errorsOf(withUri(''), { includeOffChain: true }), {
      errors: ['', '', ''],
      filled: filled(false),
      uri: '',
    });
    const inline = 'data:application/json;base64,eyJuYW1lIjoiQiJ9';
    assert.deepEqual(await errorsOf(withUri(inline), { includeOffChain: true }), {
      errors: ['', '', ''],
      filled: filled(true),
      uri: inline,
    });
  });

  test('accepted forms of a document and their results', async () => {
    bed.documents.route(
      '/odd',
      answer(
        200,
        {},
        JSON.stringify({
          name: 7,
          symbol: null,
          image: { a: 1 },
          attributes: [{ trait_type: 'x', value: 1.5 }, { value: true }, null, 'y', { trait_type: 'z' }],
          seller_fee_basis_points: '250',
          properties: { creators: [{ address: 'A', share: '40' }], category: 5 },
        }),
      ),
    );
    const { body } = await bed.ask({ mintAccounts: [withUri(`${bed.documents.url}/odd`)], includeOffChain: true });
    assert.deepEqual(body[0].offChainMetadata.metadata, {
      name: '7',
      symbol: '',
      description: '',
      image: '{"a":1}',
      sellerFeeBasisPoints: 250,
      attributes: [
        { traitType: 'x', value: '1.5' },
        { traitType: '', value: 'true' },
        { traitType: 'z', value: '' },
      ],
      properties: { category: null, creators: [{ address: 'A', share: '40' }], files: null },
    });
  });

  test('Token-2022: in the mint, in another account of the program, in a stranger’s, and in none', async () => {
    const texts = (mint: string, name: string) => ({ updateAuthority: AUTHORITY, mint, name, symbol: 'S', uri: 'u' });
    const extended = (mint: string, target: string | null, own: string | null) => {
      const extensions = [
        { type: POINTER, value: pointerValue(null, target) },
        ...(own === null ? [] : [{ type: METADATA, value: tokenMetadataValue(texts(mint, own)) }]),
      ];
      bed.accounts.set(mint, { owner: TOKEN_2022_PROGRAM, data: writeMint({ extensions }) });
    };
    const read = async (mint: string) => {
      const { body } = await bed.ask({ mintAccounts: [mint] });
      const { metadata, error } = body[0].onChainMetadata;
      return metadata === null ? error : metadata;
    };
    const inside = put(null);
    extended(inside, inside, 'Inside');
    assert.deepEqual(await read(inside), {
      key: 'MetadataV1',
      updateAuthority: AUTHORITY,
      mint: inside,
      primarySaleHappened: false,
      isMutable: true,
      data: { name: 'Inside', symbol: 'S', uri: 'u', sellerFeeBasisPoints: 0, creators: null },
      editionNonce: 0,
      tokenStandard: 'NonFungible',
      collection: null,
      collectionDetails: null,
      uses: { useMethod: '', remaining: 0, total: 0 },
    });

    const stranger = keyOf(201);
    const foreign = put(null);
    extended(foreign, stranger, null);
    const place = (name: string, mint: string) =>
      Buffer.concat([
        Buffer.alloc(165),
        Buffer.of(1, METADATA, 0),
        u16(tokenMetadataValue(texts(mint, name)).length),
        tokenMetadataValue(texts(mint, name)),
      ]);
    bed.accounts.set(stranger, { owner: SYSTEM_PROGRAM, data: place('Foreign', foreign) });
    assert.equal((await read(foreign)).data.name, 'Foreign');

    const liar = put(null);
    extended(liar, stranger, null);
    assert.equal(await read(liar), 'INVALID_ACCOUNT', 'it speaks of another mint');
    // The stranger's account in the layout of Metaplex.
    const [holder, borrowed] = [keyOf(202), put(null)];
    extended(borrowed, holder, null);
    bed.accounts.set(holder, { owner: SYSTEM_PROGRAM, data: writeMetadata(fields(borrowed), true).data });
    assert.equal((await read(borrowed)).data.name, 'Pudgy ');

    const empty = put(null);
    extended(empty, empty, null);
    assert.equal(await read(empty), 'EMPTY_ACCOUNT');
    // Then what every mint may have counts.
    const plain = put(null);
    extended(plain, null, null);
    bed.accounts.set(metadataAddress(plain), {
      owner: METADATA_PROGRAM,
      data: writeMetadata(fields(plain), true).data,
    });
    assert.equal((await read(plain)).data.name, 'Pudgy ');
  });

  test('numbers of 64 bits are exact', async () => {
    const mint = put(null);
    bed.accounts.set(mint, {
      owner: TOKEN_PROGRAM,
      data: writeMint({ supply: 2n ** 64n - 1n }),
      lamports: '9007199254740993',
    });
    const { text } = await bed.ask({ mintAccounts: [mint] });
    for (const part of [
      '"lamports":9007199254740993,',
      '"rentEpoch":18446744073709551615}',
      '"supply":"18446744073709551615"',
    ])
      assert.ok(text.includes(part), `${part} in ${text}`);
  });
});

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

test("a gateway in a network of one's own is reached without opening that network to the chain", async (t) => {
  const bed = await startBed({ offChain: { allowCidrs: [] } });
  t.after(() => bed.stop());
  const cid = `Qm${'a'.repeat(44)}`;
  bed.documents.setFallback(answer(200, {}, '{"name":"n"}'));
  const ask = async (number: number, uri: string) => {
    const mint = keyOf(number);
    bed.accounts.set(mint, { owner: TOKEN_PROGRAM, data: writeMint() });
    const metadata = writeMetadata(fields(mint, uri), true).data;
    bed.accounts.set(metadataAddress(mint), { owner: METADATA_PROGRAM, data: metadata });
    const { body } = await bed.ask({ mintAccounts: [mint], includeOffChain: true });
    return body[0].offChainMetadata.error;
  };
  assert.equal(await ask(1, `ipfs://${cid}`), '');
  const own = bed.documents.url;
  for (const [at, uri] of [
    `${own}/ipfs/${cid}`,
    `${own}/api/v0/shutdown`,
    'ipfs://../api/v0/shutdown',
    `ipfs://${cid}/..%2f..%2fapi/v0/shutdown`,
  ].entries())
    assert.equal(await ask(10 + at, uri), 'UNKNOWN', uri);
  // Sent elsewhere, the gateway is an address like any other.
  bed.documents.setFallback(answer(302, { location: `${own}/api/v0/shutdown` }));
  assert.equal(await ask(2, `ipfs://${cid}/other`), 'UNKNOWN');
  assert.deepEqual(
    bed.documents.received.map(({ url }) => url),
    [`/ipfs/${cid}`, `/ipfs/${cid}/other`],
  );
});
