import { encode32 } from '../../lib/base58.ts';
import { type ByteReader, createByteReader, LayoutError } from '../../lib/bytes.ts';
import {
  type ChangeLog,
  type LeafSchema,
  readApplicationData,
  readChangeLog,
  readLeafEvent,
} from '../concurrent/decode-concurrent.ts';
import { type LeafMetadata, readLeafMetadata, readMetadataUpdate } from '../concurrent/leaf-metadata.ts';
import { assetId } from '../concurrent/tree.ts';
import { u32At, u64At } from '../movements/instructions.ts';
import { BUBBLEGUM_PROGRAM, MPL_NOOP_PROGRAM, NOOP_PROGRAM } from '../programs.ts';
import { discriminatorOf, type TransactionParser, type TransactionView, type ViewStep } from './parser.ts';

/** Only its first version has a known layout. */
const UPDATE_METADATA = 'aab62bef614ee1ba';

const NEW_TREE = 'CREATE_MERKLE_TREE';

interface BubblegumStep {
  readonly form: BubblegumForm;
  readonly step: ViewStep;
  /** Calls up to the next instruction of Bubblegum. */
  readonly calls: readonly ViewStep[];
}

export const bubblegum: TransactionParser = {
  name: 'bubblegum',
  programs: [BUBBLEGUM_PROGRAM],
  isInnerEnough: true,
  parse(view) {
    const found = view.steps.flatMap((step, at): BubblegumStep[] => {
      const form = step.programId === BUBBLEGUM_PROGRAM ? BUBBLEGUM_FORMS[discriminatorOf(step.data)] : undefined;
      return form === undefined ? [] : [{ form, step, calls: callsOf(view.steps, at) }];
    });
    const [first] = found;
    if (first === undefined) return null;
    const { type, did } = first.form;
    const records = found.filter(({ form }) => form.did !== '' || form.type === NEW_TREE);
    return {
      type,
      source: 'BUBBLEGUM',
      describe: () => (did === '' ? '' : `${view.feePayer} ${did} a compressed nft.`),
      events: () => (records.length === 0 ? {} : { compressed: records.map((one) => entryOf(view, one)) }),
    };
  },
};

function callsOf(steps: readonly ViewStep[], at: number): ViewStep[] {
  const calls: ViewStep[] = [];
  const { outer } = steps[at]!;
  for (let next = at + 1; next < steps.length; next++) {
    const step = steps[next]!;
    if (step.outer !== outer || step.programId === BUBBLEGUM_PROGRAM) break;
    calls.push(step);
  }
  return calls;
}

function entryOf(view: TransactionView, { form, step, calls }: BubblegumStep): Readonly<Record<string, unknown>> {
  const records = readEmittedRecords(calls);
  const { leaf, change } = records;
  const at = (position: number): string | null => {
    const text = position < 0 ? '' : view.account(step.accounts[position]);
    // For an absent optional account the program names itself.
    return text === '' || text === BUBBLEGUM_PROGRAM ? null : text;
  };
  const isGone = form.type.endsWith('_BURN') || form.type.endsWith('_REDEEM');
  const owner = at(form.owner);
  const delegate = at(form.delegate) ?? owner;
  return {
    assetId: assetOf(view, step, records, form),
    innerInstructionIndex: step.inner < 0 ? null : step.inner,
    instructionIndex: step.outer,
    leafIndex: form.type === NEW_TREE ? null : (change?.leafIndex ?? null),
    metadata: form.metadata === 0 ? null : readMintMetadata(step.data, form.metadata),
    newLeafDelegate:
      leaf === null ? (isGone ? null : (at(form.newDelegate) ?? at(form.newOwner))) : encode32(leaf.delegate),
    newLeafOwner: leaf === null ? (isGone ? null : at(form.newOwner)) : encode32(leaf.owner),
    oldLeafDelegate: form.metadata !== 0 ? null : delegate,
    oldLeafOwner: form.metadata !== 0 ? null : owner,
    seq: change?.seq ?? null,
    treeDelegate: at(form.treeDelegate) ?? at(form.payer),
    treeId: change === null ? at(form.tree) : encode32(change.tree),
    type: form.type,
    updateArgs: form === BUBBLEGUM_FORMS[UPDATE_METADATA] ? readUpdateArgs(step.data) : null,
  };
}

/** Offset of the nonce in the data of instructions that empty a leaf: after discriminator, root and two hashes. */
const NONCE_AT = 8 + 32 * 3;

function assetOf(
  view: TransactionView,
  step: ViewStep,
  { leaf, change }: EmittedRecords,
  form: BubblegumForm,
): string | null {
  if (leaf !== null) return encode32(leaf.id);
  if (form.type === NEW_TREE) return null;
  const position = form.tree < 0 ? undefined : step.accounts[form.tree];
  const key = position === undefined ? -1 : (view.tx.keys[position] ?? -1);
  const tree = change?.tree ?? view.movements.keys.bytes(key);
  const nonce = u64At(step.data, NONCE_AT);
  // The number is checked against the leaf, because data of another layout has another value there.
  const isSure = nonce !== null && change !== null && u32At(step.data, NONCE_AT + 8) === change.leafIndex;
  return tree === null || !isSure ? null : encode32(assetId(tree, nonce));
}

/** Positions in the accounts of an instruction; -1 when absent. */
interface BubblegumForm {
  readonly type: string;
  /** Verb in the sentence `{payer} {did} a compressed nft.` */
  readonly did: string;
  readonly tree: number;
  readonly owner: number;
  readonly delegate: number;
  readonly newOwner: number;
  readonly newDelegate: number;
  readonly treeDelegate: number;
  /** Used when no delegate of the tree is named. */
  readonly payer: number;
  /** Layout of the metadata in the data of a mint. */
  readonly metadata: 0 | 1 | 2;
}

type Places = Partial<Omit<BubblegumForm, 'type' | 'did'>>;

const NOWHERE = {
  tree: -1,
  owner: -1,
  delegate: -1,
  newOwner: -1,
  newDelegate: -1,
  treeDelegate: -1,
  payer: -1,
  metadata: 0,
} as const;

const form = (type: string, did: string, places: Places): BubblegumForm => ({ ...NOWHERE, type, did, ...places });
const nft = (what: string, did: string, places: Places) => form(`COMPRESSED_NFT_${what}`, did, places);

const V1 = { owner: 1, delegate: 2, tree: 3 } as const;
const V2 = { owner: 3, delegate: 4, tree: 5 } as const;
const MINT_V2 = { treeDelegate: 2, payer: 1, newOwner: 4, newDelegate: 5, tree: 6, metadata: 2 } as const;
const DELEGATE_V2 = { owner: 2, delegate: 3, newDelegate: 4, tree: 5 } as const;
const COLLECTION_V2 = { owner: 4, delegate: 5, tree: 6 } as const;
const MINT_V1 = { newOwner: 1, newDelegate: 2, tree: 3, treeDelegate: 5, metadata: 1 } as const;
const CHECKED_V1 = { ...V1, treeDelegate: 5 } as const;

/** By discriminator. */
const BUBBLEGUM_FORMS: Readonly<Record<string, BubblegumForm>> = {
  // mint_v1, mint_to_collection_v1, mint_v2, mint_to_collection_v2
  '9162c076b8937668': nft('MINT', 'minted', MINT_V1),
  '9912b22fc59e560f': nft('MINT', 'minted', MINT_V1),
  '78791792ad6ec7cd': nft('MINT', 'minted', MINT_V2),
  '6b63aacb7a13e503': nft('MINT', 'minted', MINT_V2),
  // transfer, transfer_v2
  a334c8e78c0345ba: nft('TRANSFER', 'transferred', { owner: 1, delegate: 2, newOwner: 3, tree: 4 }),
  '772806ebeaddf831': nft('TRANSFER', 'transferred', { owner: 3, delegate: 4, newOwner: 5, tree: 6 }),
  // burn, burn_v2
  '746e1d386bdb2a5d': nft('BURN', 'burned', V1),
  '73d222f0e88fb710': nft('BURN', 'burned', { owner: 2, delegate: 3, tree: 4 }),
  // delegate, delegate_v2
  '5a934bb255580489': nft('DELEGATE', 'delegated', { owner: 1, delegate: 2, newDelegate: 3, tree: 4 }),
  '5f577d8cb58380e3': nft('DELEGATE', 'delegated', DELEGATE_V2),
  // delegate_and_freeze_v2
  '11e523dabef1fa7b': nft('DELEGATE', 'delegated', DELEGATE_V2),
  b80c569546c461e1: nft('REDEEM', 'redeemed', V1),
  '6f4ce83227af30f2': nft('CANCEL_REDEEM', 'cancelled the redemption of', { owner: 1, tree: 2 }),
  '34116084470455c2': nft('VERIFY_CREATOR', 'verified a creator of', V1),
  '6bb2392769737098': nft('UNVERIFY_CREATOR', 'unverified a creator of', V1),
  '387165fd4f377aa9': nft('VERIFY_COLLECTION', 'verified the collection of', CHECKED_V1),
  fafb2a6a2989baa8: nft('UNVERIFY_COLLECTION', 'unverified the collection of', CHECKED_V1),
  ebf279d89eeab4ea: nft('SET_VERIFY_COLLECTION', 'set the collection of', CHECKED_V1),
  // verify_creator_v2, unverify_creator_v2, set_collection_v2, update_metadata_v2
  '558a8c2a16f17666': nft('VERIFY_CREATOR', 'verified a creator of', V2),
  ae701d8ee664ef07: nft('UNVERIFY_CREATOR', 'unverified a creator of', V2),
  e5233d5b0f0e63a0: nft('SET_VERIFY_COLLECTION', 'set the collection of', COLLECTION_V2),
  '2b67592a79f23e48': nft('UPDATE_METADATA', 'updated the metadata of', {}),
  // freeze_v2, thaw_v2, thaw_and_revoke_v2
  c897f46610c3ff03: form('FREEZE', '', V2),
  '6085655d52dc92bf': form('THAW', '', V2),
  '56d6be25a7041c74': form('THAW', '', V2),
  aab62bef614ee1ba: nft('UPDATE_METADATA', 'updated the metadata of', { owner: 5, delegate: 6, tree: 8 }),
  a553888e59ca2fdc: form('CREATE_MERKLE_TREE', '', { tree: 1, treeDelegate: 3, payer: 2 }),
  '37635fd78ecbe3cd': form('CREATE_MERKLE_TREE', '', { tree: 1, treeDelegate: 3, payer: 2 }),
  // decompress_v1: the tree is no longer part of it
  '36554c46e4faa451': form('DECOMPRESS_NFT', '', { owner: 1 }),
};

const STANDARDS = ['NonFungible', 'FungibleAsset', 'Fungible', 'NonFungibleEdition'];
const TOKEN_PROGRAMS = ['Original', 'Token2022'];
const USE_METHODS = ['Burn', 'Multiple', 'Single'];

/**
 * The metadata of a mint after its discriminator; null when it is damaged. Absent options have no member.
 */
function readMintMetadata(data: Uint8Array, layout: 1 | 2): Readonly<Record<string, unknown>> | null {
  try {
    const reader = createByteReader(data, 8);
    return layout === 1 ? readV1(reader) : readV2(reader);
  } catch (error) {
    if (error instanceof LayoutError) return null;
    throw error;
  }
}

function readV1(reader: ByteReader): Readonly<Record<string, unknown>> {
  const { collection, editionNonce, tokenStandard, uses, tokenProgram, ...given } = readLeafMetadata(reader, 1);
  return {
    ...(collection === null ? {} : { collection: { key: encode32(collection.key), verified: collection.verified } }),
    creators: creatorsOf(given),
    ...(editionNonce === null ? {} : { editionNonce }),
    isMutable: given.isMutable,
    name: given.name,
    primarySaleHappened: given.primarySaleHappened,
    sellerFeeBasisPoints: given.sellerFeeBasisPoints,
    symbol: given.symbol,
    tokenProgramVersion: nameAt(TOKEN_PROGRAMS, tokenProgram),
    ...(tokenStandard === null ? {} : { tokenStandard: nameAt(STANDARDS, tokenStandard) }),
    uri: given.uri,
    ...(uses === null
      ? {}
      : {
          uses: {
            useMethod: nameAt(USE_METHODS, uses.method),
            remaining: Number(uses.remaining),
            total: Number(uses.total),
          },
        }),
  };
}

function readV2(reader: ByteReader): Readonly<Record<string, unknown>> {
  const { collection, tokenStandard, ...given } = readLeafMetadata(reader, 2);
  return {
    // A mint of this version fails unless the collection signs.
    ...(collection === null ? {} : { collection: { key: encode32(collection.key), verified: true } }),
    creators: creatorsOf(given),
    isMutable: given.isMutable,
    name: given.name,
    primarySaleHappened: given.primarySaleHappened,
    sellerFeeBasisPoints: given.sellerFeeBasisPoints,
    symbol: given.symbol,
    ...(tokenStandard === null ? {} : { tokenStandard: nameAt(STANDARDS, tokenStandard) }),
    uri: given.uri,
  };
}

const creatorsOf = ({ creators }: Pick<LeafMetadata, 'creators'>) =>
  creators.map(({ address, share, verified }) => ({ address: encode32(address), share, verified }));

function nameAt(names: readonly string[], at: number): string {
  const name = names[at];
  if (name === undefined) throw new LayoutError(`no name for ${at}`);
  return name;
}

/** Discriminator, root, nonce, index. */
const HEAD_BYTES = 8 + 32 + 8 + 4;

/**
 * The fields set by `update_metadata`; null when damaged. Unchanged fields are absent.
 */
function readUpdateArgs(data: Uint8Array): Readonly<Record<string, unknown>> | null {
  try {
    const reader = createByteReader(data, HEAD_BYTES);
    // The previous metadata.
    readLeafMetadata(reader, 1);
    const update = readMetadataUpdate(reader);
    const args = { ...update, creators: update.creators === null ? null : creatorsOf({ creators: update.creators }) };
    const given = Object.entries(args).filter(([, value]) => value !== null);
    return Object.fromEntries(given.sort(([left], [right]) => (left < right ? -1 : 1)));
  } catch (error) {
    if (error instanceof LayoutError) return null;
    throw error;
  }
}

const NOOPS = [NOOP_PROGRAM, MPL_NOOP_PROGRAM];

/** Records that a Bubblegum instruction emitted for a leaf. */
interface EmittedRecords {
  readonly leaf: LeafSchema | null;
  readonly change: ChangeLog | null;
}

/** Reads the records among the calls of an instruction. */
function readEmittedRecords(calls: readonly ViewStep[]): EmittedRecords {
  let leaf: LeafSchema | null = null;
  let change: ChangeLog | null = null;
  for (const { programId, data } of calls) {
    if (!NOOPS.includes(programId)) continue;
    change ??= tolerant(() => readChangeLog(data));
    leaf ??= tolerant(() => {
      const application = readApplicationData(data);
      return application === null ? null : readLeafEvent(application);
    });
  }
  return { leaf, change };
}

function tolerant<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (error instanceof LayoutError || error instanceof RangeError) return null;
    throw error;
  }
}
