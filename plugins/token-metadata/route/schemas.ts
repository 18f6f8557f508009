import { Type } from '../../../src/plugin/plugin.ts';

const nullable = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) => Type.Union([schema, Type.Null()]);
const sectionError = Type.String({
  description: 'empty, or UNKNOWN, EMPTY_ACCOUNT, TIMEOUT, INVALID_ACCOUNT, INVALID_PUBKEY',
});
const share = Type.Union([Type.String(), Type.Integer()], {
  description: 'per cent; text unless configured otherwise',
});

const mintInfo = Type.Object({
  decimals: Type.Integer(),
  freezeAuthority: Type.String(),
  isInitialized: Type.Boolean(),
  mintAuthority: Type.String(),
  supply: Type.String({ description: 'raw units' }),
});

const accountInfo = Type.Object({
  key: Type.String(),
  isSigner: Type.Boolean(),
  isWritable: Type.Boolean(),
  lamports: Type.Integer(),
  data: Type.Object({
    parsed: Type.Object({ info: mintInfo, type: Type.String() }),
    program: Type.String({ description: 'address of the token program' }),
    space: Type.Integer({ description: 'bytes of the account' }),
  }),
  owner: Type.String(),
  executable: Type.Boolean(),
  rentEpoch: Type.Integer(),
});

const chainMetadata = Type.Object({
  key: Type.String(),
  updateAuthority: Type.String(),
  mint: Type.String(),
  data: Type.Object({
    name: Type.String(),
    symbol: Type.String(),
    uri: Type.String(),
    sellerFeeBasisPoints: Type.Integer(),
    creators: nullable(Type.Array(Type.Object({ address: Type.String(), share, verified: Type.Boolean() }))),
  }),
  primarySaleHappened: Type.Boolean(),
  isMutable: Type.Boolean(),
  editionNonce: Type.Integer(),
  tokenStandard: Type.String(),
  collection: nullable(Type.Object({ key: Type.String(), verified: Type.Boolean() })),
  collectionDetails: nullable(Type.Object({ size: Type.Integer() })),
  uses: Type.Object({ useMethod: Type.String(), remaining: Type.Integer(), total: Type.Integer() }),
});

const document = Type.Object({
  name: Type.String(),
  symbol: Type.String(),
  description: Type.String(),
  image: Type.String(),
  attributes: nullable(Type.Array(Type.Object({ traitType: Type.String(), value: Type.String() }))),
  sellerFeeBasisPoints: Type.Number(),
  properties: Type.Object({
    category: nullable(Type.String()),
    creators: nullable(Type.Array(Type.Object({ address: Type.String(), share }))),
    files: nullable(Type.Array(Type.Object({ uri: Type.String(), type: Type.String() }))),
  }),
});

const listed = Type.Object({
  chainId: Type.Integer(),
  address: Type.String(),
  symbol: Type.String(),
  name: Type.String(),
  decimals: Type.Integer(),
  logoURI: Type.String(),
  tags: Type.Array(Type.Unknown()),
  extensions: Type.Record(Type.String(), Type.Unknown()),
});

export const questionSchema = Type.Object({
  mintAccounts: Type.Array(Type.String(), { maxItems: 100, description: 'addresses of mints' }),
  includeOffChain: Type.Optional(Type.Boolean({ default: false, description: 'also read what the uri points to' })),
  disableCache: Type.Optional(Type.Boolean({ default: false, description: 'read everything again' })),
});

export const replySchema = Type.Array(
  Type.Object({
    account: Type.String(),
    onChainAccountInfo: Type.Object({ accountInfo: nullable(accountInfo), error: sectionError }),
    onChainMetadata: Type.Object({ metadata: nullable(chainMetadata), error: sectionError }),
    offChainMetadata: Type.Object({ metadata: nullable(document), uri: Type.String(), error: sectionError }),
    legacyMetadata: nullable(listed),
  }),
);

export const errorReply = Type.Object({ error: Type.String(), code: Type.Integer() });
