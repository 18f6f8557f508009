import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { metadataAddress } from '../../../src/solana/addresses.ts';
import { METADATA_PROGRAM } from '../../../src/solana/programs.ts';
import { listFixtures, readJsonFixture, skipWithoutFixtures } from '../../helpers/fixtures.ts';
import { answer } from '../../helpers/receiver.ts';
import { writeMetadata } from '../../helpers/write-metadata.ts';
import { writeMint } from '../../helpers/write-mint.ts';
import { type Bed, startBed } from './harness.ts';

// biome-ignore lint/suspicious/noExplicitAny: recorded JSON.
type Json = any;

for (const shareAsNumber of [true, false]) {
  suite(`answers of the hosted service, share as ${shareAsNumber ? 'number' : 'text'}`, {
    skip: skipWithoutFixtures,
  }, () => {
    const recorded: Json[] =
      skipWithoutFixtures === false
        ? listFixtures('chain/helius-token-metadata')
            .map((file) => readJsonFixture<Json>(file))
            .filter((element) => element.onChainMetadata !== undefined)
        : [];
    let bed: Bed;
    before(async () => {
      bed = await startBed({ config: { shareAsNumber } });
      for (const element of recorded) serve(bed, element);
    });
    after(() => bed.stop());

    test('come back from the accounts and documents that they were made of', async () => {
      assert.ok(recorded.length >= 4);
      const mintAccounts = recorded.map((element) => element.account);
      for (const disableCache of [false, false, true]) {
        const { status, body } = await bed.ask({ mintAccounts, includeOffChain: true, disableCache });
        assert.equal(status, 200);
        assert.deepEqual(body, shareAsNumber ? recorded : recorded.map(sharesAsText));
      }
    });

    test('without documents everything else is the same', async () => {
      const { body } = await bed.ask({ mintAccounts: recorded.map((element) => element.account) });
      const bare = recorded.map((element) => ({
        ...element,
        offChainMetadata: { ...element.offChainMetadata, metadata: null },
      }));
      assert.deepEqual(body, shareAsNumber ? bare : bare.map(sharesAsText));
    });
  });
}

function serve({ accounts, documents }: Bed, element: Json): void {
  const { lamports, owner, rentEpoch, data } = element.onChainAccountInfo.accountInfo;
  const { info } = data.parsed;
  accounts.set(element.account, {
    owner,
    lamports: String(lamports),
    rentEpoch: String(rentEpoch),
    data: writeMint({
      ...info,
      supply: BigInt(info.supply),
      mintAuthority: info.mintAuthority || null,
      freezeAuthority: info.freezeAuthority || null,
    }),
  });
  const { metadata } = element.onChainMetadata;
  const fields = {
    ...metadata,
    ...metadata.data,
    tokenStandard: metadata.tokenStandard || null,
    uses: metadata.uses.useMethod === '' ? null : metadata.uses,
    programmableConfig: null,
  };
  accounts.set(metadataAddress(element.account), { owner: METADATA_PROGRAM, data: writeMetadata(fields, true).data });
  const path = new URL(element.offChainMetadata.uri).pathname;
  documents.route(
    `/arweave${path}`,
    answer(200, { 'content-type': 'text/plain' }, snakeCase(element.offChainMetadata.metadata)),
  );
}

/** The document as its author wrote it, with something that the answer has no place for. */
function snakeCase(metadata: Json): string {
  const { attributes, sellerFeeBasisPoints, properties, ...rest } = metadata;
  return JSON.stringify({
    ...rest,
    seller_fee_basis_points: sellerFeeBasisPoints,
    attributes: attributes.map(({ traitType, value }: Json) => ({ trait_type: traitType, value })),
    properties: Object.fromEntries(Object.entries(properties).filter(([, value]) => value !== null)),
    compiler: 'something else',
  });
}

function sharesAsText(element: Json): Json {
  const copy = structuredClone(element);
  const { creators } = copy.onChainMetadata.metadata.data;
  for (const creator of creators ?? []) creator.share = String(creator.share);
  return copy;
}
