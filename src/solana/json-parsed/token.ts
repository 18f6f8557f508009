import { createHash } from 'node:crypto';
import {
  byteReader,
  type FieldReader,
  type Info,
  type LayoutReader,
  plainUiAmount,
  type Shape,
  showAs,
  withAuthority,
} from './layout.ts';

const AUTHORITY_TYPES = [
  'mintTokens',
  'freezeAccount',
  'accountOwner',
  'closeAccount',
  'transferFeeConfig',
  'withheldWithdraw',
  'closeMint',
  'interestRate',
  'permanentDelegate',
  'confidentialTransferMint',
  'transferHookProgramId',
  'confidentialTransferFeeConfig',
  'metadataPointer',
  'groupPointer',
  'groupMemberPointer',
  'scaledUiAmount',
  'pause',
  'permissionedBurn',
];
const OF_ACCOUNT = new Set(['accountOwner', 'closeAccount']);
const BATCH = 255;

const amount: FieldReader = (read) => ({ amount: read.u64().toString() });
/** Amount and decimals of a `...Checked` instruction; the mint is not read. */
const checked: FieldReader = (read) => {
  const raw = read.u64();
  return { tokenAmount: plainUiAmount(raw, read.u8()) };
};

function mint(read: LayoutReader): Info {
  const decimals = read.u8();
  const mintAuthority = read.key();
  const freezeAuthority = read.optionalKey();
  return { decimals, mintAuthority, ...(freezeAuthority === null ? {} : { freezeAuthority }) };
}

const multisig =
  (firstSigner: number): FieldReader =>
  (read, keys) => ({ m: read.u8(), signers: keys.slice(firstSigner) });

function setAuthority(read: LayoutReader, keys: readonly string[]): Info {
  const authorityType = AUTHORITY_TYPES[read.u8()];
  if (authorityType === undefined) throw new RangeError('unknown authority type');
  const subject = OF_ACCOUNT.has(authorityType) ? 'account' : 'mint';
  return { [subject]: keys[0], authorityType, newAuthority: read.optionalKey() };
}

function extensionTypes(read: LayoutReader): string[] {
  const names: string[] = [];
  while (read.left() >= 2) names.push(extensionTypeName(read.u16()));
  return names;
}

/** Both token programs. Throws RangeError when the data is too short. */
export function parseToken(data: Uint8Array, keys: readonly string[]): unknown {
  const read = byteReader(data);
  const number = read.u8();
  if (number === BATCH) return parseBatch(read, keys);
  if (number === 6) {
    const setting = setAuthority(read, keys);
    return showAs(
      { type: 'setAuthority', accounts: '', authority: 'authority', fields: () => setting },
      read,
      keys.slice(1),
    );
  }
  const shape = SHAPES[number];
  if (shape === undefined) return parseInterface(data, keys);
  return showAs(Array.isArray(shape) ? shape[read.u8()] : (shape as Shape), read, keys);
}

/** Instructions of the same program, each with its number of accounts and of bytes. */
function parseBatch(read: LayoutReader, keys: readonly string[]): unknown {
  const instructions: unknown[] = [];
  let from = 0;
  while (read.left() > 0) {
    const accounts = read.u8();
    const data = read.raw(read.u8());
    const inner = data[0] === BATCH ? null : parseToken(data, keys.slice(from, from + accounts));
    if (inner === null) return null;
    instructions.push(inner);
    from += accounts;
  }
  return { type: 'batch', info: { instructions } };
}

/** Instructions of one extension by their second byte. */
type ExtensionShapes = readonly (Shape | undefined)[];

const ACCOUNT_STATES = ['uninitialized', 'initialized', 'frozen'];

/** Names of extensions by number, as shown in instructions. */
const TYPE_NAMES = [
  'uninitialized',
  'transferFeeConfig',
  'transferFeeAmount',
  'mintCloseAuthority',
  'confidentialTransferMint',
  'confidentialTransferAccount',
  'defaultAccountState',
  'immutableOwner',
  'memoTransfer',
  'nonTransferable',
  'interestBearingConfig',
  'cpiGuard',
  'permanentDelegate',
  'nonTransferableAccount',
  'transferHook',
  'transferHookAccount',
  'confidentialTransferFeeConfig',
  'confidentialTransferFeeAmount',
  'metadataPointer',
  'tokenMetadata',
  'groupPointer',
  'tokenGroup',
  'groupMemberPointer',
  'tokenGroupMember',
  'confidentialMintBurn',
  'scaledUiAmount',
  'pausable',
  'pausableAccount',
  'permissionedBurn',
];

function extensionTypeName(number: number): string {
  const name = TYPE_NAMES[number];
  if (name === undefined) throw new RangeError('unknown extension');
  return name;
}

/** Omits null members. */
function present(info: Info): Info {
  return Object.fromEntries(Object.entries(info).filter(([, value]) => value !== null));
}

/** An extension that points from a mint to an account: `name` is the member name of the account. */
function pointer(kind: string, name: string): ExtensionShapes {
  return [
    {
      type: `initialize${kind}`,
      accounts: 'mint',
      fields: (read) => present({ authority: read.keyOrNone(), [name]: read.keyOrNone() }),
    },
    {
      type: `update${kind}`,
      accounts: 'mint',
      authority: 'authority',
      fields: (read) => present({ [name]: read.keyOrNone() }),
    },
  ];
}

function switchable(kind: string): ExtensionShapes {
  return [
    { type: `enable${kind}`, accounts: 'account', authority: 'owner' },
    { type: `disable${kind}`, accounts: 'account', authority: 'owner' },
  ];
}

const transferFee: ExtensionShapes = [
  {
    type: 'initializeTransferFeeConfig',
    accounts: 'mint',
    fields: (read) => ({
      ...present({ transferFeeConfigAuthority: read.optionalKey(), withdrawWithheldAuthority: read.optionalKey() }),
      transferFeeBasisPoints: read.u16(),
      maximumFee: read.amount(),
    }),
  },
  {
    type: 'transferCheckedWithFee',
    accounts: 'source mint destination',
    authority: 'authority',
    fields(read) {
      const amount = read.u64();
      const decimals = read.u8();
      return { tokenAmount: plainUiAmount(amount, decimals), feeAmount: plainUiAmount(read.u64(), decimals) };
    },
  },
  {
    type: 'withdrawWithheldTokensFromMint',
    accounts: 'mint feeRecipient',
    authority: 'withdrawWithheldAuthority',
  },
  {
    type: 'withdrawWithheldTokensFromAccounts',
    accounts: 'mint feeRecipient',
    fields(read, keys) {
      const first = keys.length - read.u8();
      if (first < 3) throw new RangeError('fewer accounts than the data say');
      const info = { sourceAccounts: keys.slice(first) };
      return withAuthority(info, keys.slice(2, first), 'withdrawWithheldAuthority') ?? info;
    },
  },
  {
    type: 'harvestWithheldTokensToMint',
    accounts: 'mint',
    fields: (_read, keys) => ({ sourceAccounts: keys.slice(1) }),
  },
  {
    type: 'setTransferFee',
    accounts: 'mint',
    authority: 'transferFeeConfigAuthority',
    fields: (read) => ({ transferFeeBasisPoints: read.u16(), maximumFee: read.amount() }),
  },
];

const defaultAccountState: ExtensionShapes = [
  {
    type: 'initializeDefaultAccountState',
    accounts: 'mint',
    fields: (read) => ({ accountState: ACCOUNT_STATES[read.u8()] }),
  },
  {
    type: 'updateDefaultAccountState',
    accounts: 'mint',
    authority: 'freezeAuthority',
    fields: (read) => ({ accountState: ACCOUNT_STATES[read.u8()] }),
  },
];

const interestBearing: ExtensionShapes = [
  {
    type: 'initializeInterestBearingConfig',
    accounts: 'mint',
    fields: (read) => ({ rateAuthority: read.keyOrNone(), rate: read.i16() }),
  },
  {
    type: 'updateInterestBearingConfigRate',
    accounts: 'mint',
    authority: 'rateAuthority',
    fields: (read) => ({ newRate: read.i16() }),
  },
];

const scaledUiAmount: ExtensionShapes = [
  {
    type: 'initializeScaledUiAmountConfig',
    accounts: 'mint',
    fields: (read) => ({ authority: read.keyOrNone(), multiplier: String(read.f64()) }),
  },
  {
    type: 'updateMultiplier',
    accounts: 'mint',
    authority: 'authority',
    fields: (read) => ({ newMultiplier: String(read.f64()), newMultiplierTimestamp: read.time() }),
  },
];

const pausable: ExtensionShapes = [
  { type: 'initializePausableConfig', accounts: 'mint', fields: (read) => ({ authority: read.keyOrNone() }) },
  { type: 'pause', accounts: 'mint', authority: 'authority' },
  { type: 'resume', accounts: 'mint', authority: 'authority' },
];

const permissionedBurn: ExtensionShapes = [
  { type: 'initializePermissionedBurnConfig', accounts: 'mint', fields: (read) => ({ authority: read.key() }) },
  {
    type: 'permissionedBurn',
    accounts: 'account mint permissionedBurnAuthority',
    authority: 'authority',
    fields: (read) => ({ amount: read.u64().toString() }),
  },
  {
    type: 'permissionedBurnChecked',
    accounts: 'account mint permissionedBurnAuthority',
    authority: 'authority',
    fields(read) {
      const amount = read.u64();
      return { tokenAmount: plainUiAmount(amount, read.u8()) };
    },
  },
];

/** By instruction number of Token-2022. */
const EXTENSION_SHAPES: Readonly<Record<number, ExtensionShapes>> = {
  26: transferFee,
  28: defaultAccountState,
  30: switchable('RequiredMemoTransfers'),
  33: interestBearing,
  34: switchable('CpiGuard'),
  36: pointer('TransferHook', 'programId'),
  39: pointer('MetadataPointer', 'metadataAddress'),
  40: pointer('GroupPointer', 'groupAddress'),
  41: pointer('GroupMemberPointer', 'memberAddress'),
  43: scaledUiAmount,
  44: pausable,
  46: permissionedBurn,
};

const FIELDS = ['name', 'symbol', 'uri'];

function metadataField(read: LayoutReader): string {
  const field = read.u8();
  return field === FIELDS.length ? read.shortText() : (FIELDS[field] ?? '');
}

/** Instructions of the interfaces for metadata and groups, identified by eight bytes of a hash. */
const INTERFACE_SHAPES = new Map<string, Shape>([
  [
    discriminator('spl_token_metadata_interface:initialize_account'),
    {
      type: 'initializeTokenMetadata',
      accounts: 'metadata updateAuthority mint mintAuthority',
      fields: (read) => ({ name: read.shortText(), symbol: read.shortText(), uri: read.shortText() }),
    },
  ],
  [
    discriminator('spl_token_metadata_interface:updating_field'),
    {
      type: 'updateTokenMetadataField',
      accounts: 'metadata updateAuthority',
      fields: (read) => ({ field: metadataField(read), value: read.shortText() }),
    },
  ],
  [
    discriminator('spl_token_metadata_interface:remove_key_ix'),
    {
      type: 'removeTokenMetadataKey',
      accounts: 'metadata updateAuthority',
      fields: (read) => ({ idempotent: read.bool(), key: read.shortText() }),
    },
  ],
  [
    discriminator('spl_token_metadata_interface:update_the_authority'),
    {
      type: 'updateTokenMetadataAuthority',
      accounts: 'metadata updateAuthority',
      fields: (read) => ({ newAuthority: read.keyOrNone() }),
    },
  ],
  [
    discriminator('spl_token_metadata_interface:emitter'),
    {
      type: 'emitTokenMetadata',
      accounts: 'metadata',
      fields: (read) => present({ start: read.option(read.amount), end: read.option(read.amount) }),
    },
  ],
  [
    discriminator('spl_token_group_interface:initialize_token_group'),
    {
      type: 'initializeTokenGroup',
      accounts: 'group mint mintAuthority',
      fields: (read) => ({ updateAuthority: read.keyOrNone(), maxSize: read.amount() }),
    },
  ],
  [
    discriminator('spl_token_group_interface:update_group_max_size'),
    {
      type: 'updateTokenGroupMaxSize',
      accounts: 'group updateAuthority',
      fields: (read) => ({ maxSize: read.amount() }),
    },
  ],
  [
    discriminator('spl_token_group_interface:update_authority'),
    {
      type: 'updateTokenGroupAuthority',
      accounts: 'group updateAuthority',
      fields: (read) => ({ newAuthority: read.keyOrNone() }),
    },
  ],
  [
    discriminator('spl_token_group_interface:initialize_member'),
    {
      type: 'initializeTokenGroupMember',
      accounts: 'member memberMint memberMintAuthority group groupUpdateAuthority',
    },
  ],
]);

function discriminator(name: string): string {
  return createHash('sha256').update(name).digest().toString('hex', 0, 8);
}

function parseInterface(data: Uint8Array, keys: readonly string[]): unknown {
  const read = byteReader(data);
  const shape = data.length < 8 ? undefined : INTERFACE_SHAPES.get(Buffer.from(read.raw(8)).toString('hex'));
  return showAs(shape, read, keys);
}

/** By instruction number; both token programs share the first ones. */
const SHAPES: Readonly<Record<number, Shape | ExtensionShapes>> = {
  0: { type: 'initializeMint', accounts: 'mint rentSysvar', fields: mint },
  1: { type: 'initializeAccount', accounts: 'account mint owner rentSysvar' },
  2: { type: 'initializeMultisig', accounts: 'multisig rentSysvar', fields: multisig(2) },
  3: { type: 'transfer', accounts: 'source destination', authority: 'authority', fields: amount },
  4: { type: 'approve', accounts: 'source delegate', authority: 'owner', fields: amount },
  5: { type: 'revoke', accounts: 'source', authority: 'owner' },
  7: { type: 'mintTo', accounts: 'mint account', authority: 'mintAuthority', fields: amount },
  8: { type: 'burn', accounts: 'account mint', authority: 'authority', fields: amount },
  9: { type: 'closeAccount', accounts: 'account destination', authority: 'owner' },
  10: { type: 'freezeAccount', accounts: 'account mint', authority: 'freezeAuthority' },
  11: { type: 'thawAccount', accounts: 'account mint', authority: 'freezeAuthority' },
  12: { type: 'transferChecked', accounts: 'source mint destination', authority: 'authority', fields: checked },
  13: { type: 'approveChecked', accounts: 'source mint delegate', authority: 'owner', fields: checked },
  14: { type: 'mintToChecked', accounts: 'mint account', authority: 'mintAuthority', fields: checked },
  15: { type: 'burnChecked', accounts: 'account mint', authority: 'authority', fields: checked },
  16: {
    type: 'initializeAccount2',
    accounts: 'account mint rentSysvar',
    fields: (read) => ({ owner: read.key() }),
  },
  17: { type: 'syncNative', accounts: 'account' },
  18: { type: 'initializeAccount3', accounts: 'account mint', fields: (read) => ({ owner: read.key() }) },
  19: { type: 'initializeMultisig2', accounts: 'multisig', fields: multisig(1) },
  20: { type: 'initializeMint2', accounts: 'mint', fields: mint },
  21: {
    type: 'getAccountDataSize',
    accounts: 'mint',
    fields(read) {
      const types = extensionTypes(read);
      return types.length === 0 ? {} : { extensionTypes: types };
    },
  },
  22: { type: 'initializeImmutableOwner', accounts: 'account' },
  23: { type: 'amountToUiAmount', accounts: 'mint', fields: amount },
  24: {
    type: 'uiAmountToAmount',
    accounts: 'mint',
    fields: (read) => ({ uiAmount: Buffer.from(read.rest()).toString('utf8') }),
  },
  25: {
    type: 'initializeMintCloseAuthority',
    accounts: 'mint',
    fields: (read) => ({ newAuthority: read.optionalKey() }),
  },
  29: {
    type: 'reallocate',
    accounts: 'account payer systemProgram',
    authority: 'owner',
    fields: (read) => ({ extensionTypes: extensionTypes(read) }),
  },
  31: { type: 'createNativeMint', accounts: 'payer nativeMint systemProgram' },
  32: { type: 'initializeNonTransferableMint', accounts: 'mint' },
  35: { type: 'initializePermanentDelegate', accounts: 'mint', fields: (read) => ({ delegate: read.key() }) },
  38: { type: 'withdrawExcessLamports', accounts: 'source destination', authority: 'authority' },
  45: {
    type: 'unwrapLamports',
    accounts: 'source destination',
    authority: 'authority',
    fields(read) {
      const some = read.option(() => read.u64().toString());
      return some === null ? {} : { amount: some };
    },
  },
  ...EXTENSION_SHAPES,
};
