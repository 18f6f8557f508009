import type { TObject, TSchema } from '@sinclair/typebox';
import type { ForwardedMethod } from '../../src/plugin/host.ts';
import { type Tag, Type } from '../../src/plugin/plugin.ts';
import { TOKEN_PROGRAM } from '../../src/solana/programs.ts';
import {
  address,
  count,
  EXAMPLES,
  flag,
  hash,
  lamports,
  mint,
  oneOf,
  orNull,
  signature,
  slot,
  text,
  u64,
  unixTime,
} from '../../src/solana/schemas.ts';

/** Methods of Solana nodes and bundle servers as they are known. They are forwarded as they come, so nothing here is checked. */
const OPEN = { additionalProperties: true } as const;
const open = (members: Record<string, TSchema>, description: string, title?: string): TObject =>
  Type.Object(members, { ...OPEN, description, ...(title === undefined ? {} : { title }) });
const optional = (members: Record<string, TSchema>): Record<string, TSchema> =>
  Object.fromEntries(Object.entries(members).map(([name, schema]) => [name, Type.Optional(schema)]));
const list = (items: TSchema, description: string): TSchema => Type.Array(items, { description });
/** Shapes that depend on the encoding, or on the program. */
const anything = (description: string, example: unknown): TSchema => Type.Unknown({ description, examples: [example] });
const withContext = (value: TSchema): TSchema =>
  open(
    { context: open({ slot: slot('Slot that was read') }, 'State that was read', 'RpcContext'), value },
    'The value and its slot',
  );
const integer = (description: string, example: number): TSchema => Type.Integer({ description, examples: [example] });

const commitment = oneOf(['processed', 'confirmed', 'finalized'], 'State of the chain; default finalized', 'confirmed');
const minContextSlot = slot('Slot that the state has to include');
const encoding = oneOf(['base58', 'base64', 'base64+zstd', 'jsonParsed'], 'Form of the data', 'base64');
const dataSlice = open({ offset: count('First byte', 0), length: count('Bytes', 32) }, 'Part of the data');
const filters = list(anything('memcmp or dataSize', { dataSize: 165 }), 'All have to match');

type MemberSchemas = Record<string, TSchema>;
const required = (members: MemberSchemas) =>
  Object.entries(members).map(([name, schema]) => ({ name, required: true, schema }));
const maybe = (members: MemberSchemas) =>
  Object.entries(members).map(([name, schema]) => ({ name, required: false, schema }));
/** The options of a call, with `commitment` first. */
const options = (members: MemberSchemas = {}, example: object = { commitment: 'confirmed' }) =>
  maybe({
    options: Type.Object(optional({ commitment, ...members }), {
      ...OPEN,
      description: 'Options',
      examples: [example],
    }),
  });
const READ = { minContextSlot };

const account = open(
  {
    lamports: lamports('Lamports', 2_039_280),
    owner: address('Program that owns it', TOKEN_PROGRAM),
    data: anything('Data in the encoding', ['', 'base64']),
    executable: flag('Whether it is a program'),
    rentEpoch: u64('Rent epoch', 0),
    space: count('Bytes of data', 165),
  },
  'An account',
  'RpcAccount',
);
const keyedAccount = open(
  { pubkey: address('Address of the account'), account },
  'An account with its address',
  'RpcKeyedAccount',
);
const amount = open(
  {
    amount: text('Raw units', '1500000'),
    decimals: count('Decimals', 6),
    uiAmount: orNull(Type.Number({ description: 'Whole tokens', examples: [1.5] })),
    uiAmountString: text('Whole tokens as text', '1.5'),
  },
  'An amount of tokens',
  'RpcTokenAmount',
);
const error = orNull(anything('Why it failed; null when it did not', { InstructionError: [0, { Custom: 1 }] }), {
  examples: [null],
});
const status = open(
  {
    slot: slot(),
    confirmations: orNull(count('Blocks since; null when finalized', 10)),
    err: error,
    confirmationStatus: orNull(commitment),
  },
  'Status of a transaction',
  'RpcSignatureStatus',
);
const signatureRow = open(
  {
    signature: signature(),
    slot: slot(),
    err: error,
    memo: orNull(text('Memo', 'thanks')),
    blockTime: orNull(unixTime('Time of the block')),
    confirmationStatus: orNull(commitment),
  },
  'A transaction',
  'RpcSignature',
);
const transaction = open(
  {
    slot: slot(),
    blockTime: orNull(unixTime('Time of the block')),
    transaction: anything('The transaction in the encoding', [EXAMPLES.wire, 'base64']),
    meta: orNull(open({ err: error, fee: lamports('Fee', 5_000) }, 'What it did')),
    version: Type.Unknown({ description: 'legacy or a number', examples: [0] }),
  },
  'A transaction',
  'RpcTransaction',
);
const block = open(
  {
    blockhash: hash('Hash of the block'),
    previousBlockhash: hash('Hash of the block before'),
    parentSlot: slot('Slot of the block before'),
    blockHeight: orNull(count('Number of the block', 359_120_377)),
    blockTime: orNull(unixTime('Time of the block')),
    transactions: Type.Optional(list(Type.Unknown(), 'Its transactions')),
  },
  'A block',
  'RpcBlock',
);
const simulation = open(
  {
    err: error,
    logs: orNull(list(text('A line', 'Program log: Instruction: Transfer'), 'Lines of the log')),
    accounts: orNull(list(Type.Unknown(), 'Accounts that were asked for')),
    unitsConsumed: count('Compute units', 4_645),
    returnData: orNull(Type.Unknown({ description: 'Returned data', examples: [null] })),
  },
  'What the transaction would do',
);
const versioned = {
  encoding: oneOf(['json', 'jsonParsed', 'base58', 'base64'], 'Form of the transaction', 'base64'),
  maxSupportedTransactionVersion: count('Highest version that the caller can read', 0),
};

const tag = (name: string, description: string): Tag => ({ name, description });
const ACCOUNTS = tag('Solana: accounts and tokens', 'Accounts and token balances, answered by the upstream');
const BLOCKS = tag('Solana: blocks', 'Blocks and slots, answered by the upstream');
const TRANSACTIONS = tag('Solana: transactions', 'Transactions, answered by the upstream');
const CLUSTER = tag('Solana: cluster', 'State of the cluster and the node, answered by the upstream');
const SUBSCRIPTIONS = tag('Solana: subscriptions', 'Websocket subscriptions, at the same address');
const BUNDLES = tag('Bundles', 'Bundles of transactions, answered by the configured bundle servers');

type MethodRow = readonly [name: string, summary: string, params: ForwardedMethod['params'], result: TSchema];
const group = (of: Tag, rows: readonly MethodRow[]): readonly ForwardedMethod[] =>
  rows.map(([name, summary, params, result]) => ({ name, summary, tag: of, params, result }));

const addressParam = required({ address: address() });
const owner = required({ owner: address('The owner') });
const tokenFilter = required({
  filter: Type.Unsafe<unknown>({
    type: 'object',
    properties: { mint: address('Only this mint', EXAMPLES.mint), programId: address('Only this program') },
    description: 'Either a mint or a program',
    examples: [{ mint: EXAMPLES.mint }],
  }),
});
const signatures = required({ signatures: list(signature(), 'Up to 256 signatures') });
const wire = required({
  transaction: text(
    'Signed transaction; one of version 1 has no default limits, what it leaves out is 0',
    EXAMPLES.wire,
  ),
});
const slotParam = required({ slot: slot() });
const ACCOUNT_OPTIONS = { encoding, dataSlice, ...READ };

const accountMethods: readonly MethodRow[] = [
  [
    'getAccountInfo',
    'An account',
    [...addressParam, ...options(ACCOUNT_OPTIONS, { encoding: 'base64' })],
    withContext(orNull(account)),
  ],
  ['getBalance', 'Lamports of an account', [...addressParam, ...options(READ)], withContext(lamports())],
  [
    'getMultipleAccounts',
    'Up to 100 accounts',
    [
      ...required({ addresses: list(address(), 'Up to 100 addresses') }),
      ...options(ACCOUNT_OPTIONS, { encoding: 'base64' }),
    ],
    withContext(list(orNull(account), 'The accounts in order; null for missing ones')),
  ],
  [
    'getProgramAccounts',
    'All accounts of a program',
    [
      ...required({ program: address('The program', TOKEN_PROGRAM) }),
      ...options(
        { ...ACCOUNT_OPTIONS, filters, withContext: flag('Return the slot too') },
        { encoding: 'base64', filters: [{ dataSize: 165 }] },
      ),
    ],
    list(keyedAccount, 'The accounts; with withContext, with the slot'),
  ],
  [
    'getLargestAccounts',
    'The 20 largest accounts',
    options({ filter: oneOf(['circulating', 'nonCirculating'], 'Which') }),
    withContext(list(open({ address: address(), lamports: lamports() }, 'An account'), 'The accounts')),
  ],
  [
    'getMinimumBalanceForRentExemption',
    'Lamports that an account of a size needs',
    [...required({ dataLength: count('Bytes', 165) }), ...options()],
    lamports('Lamports', 2_039_280),
  ],
  ['getTokenAccountBalance', 'Tokens of a token account', [...addressParam, ...options()], withContext(amount)],
  [
    'getTokenAccountsByDelegate',
    'Token accounts of a delegate',
    [
      ...required({ delegate: address('The delegate') }),
      ...tokenFilter,
      ...options(ACCOUNT_OPTIONS, { encoding: 'jsonParsed' }),
    ],
    withContext(list(keyedAccount, 'The accounts')),
  ],
  [
    'getTokenAccountsByMint',
    'Token accounts of a mint',
    [
      ...required({ mint: mint() }),
      ...options(
        { ...ACCOUNT_OPTIONS, programId: address('Token program of the mint; default SPL Token', TOKEN_PROGRAM) },
        { encoding: 'jsonParsed' },
      ),
    ],
    withContext(list(keyedAccount, 'The accounts')),
  ],
  [
    'getTokenAccountsByOwner',
    'Token accounts of an owner',
    [...owner, ...tokenFilter, ...options(ACCOUNT_OPTIONS, { encoding: 'jsonParsed' })],
    withContext(list(keyedAccount, 'The accounts')),
  ],
  [
    'getTokenLargestAccounts',
    'The 20 largest accounts of a mint',
    [...required({ mint: mint() }), ...options()],
    withContext(list(amount, 'Amounts with their addresses')),
  ],
  ['getTokenSupply', 'Supply of a mint', [...required({ mint: mint() }), ...options()], withContext(amount)],
  [
    'getStakeMinimumDelegation',
    'Least lamports of a delegation',
    options(),
    withContext(lamports('Lamports', 1_000_000_000)),
  ],
];

const blockMethods: readonly MethodRow[] = [
  [
    'getBlock',
    'A block',
    [
      ...slotParam,
      ...options(
        {
          ...versioned,
          transactionDetails: oneOf(['full', 'accounts', 'signatures', 'none'], 'How much of the transactions'),
          rewards: flag('Return rewards', true),
        },
        { transactionDetails: 'signatures', maxSupportedTransactionVersion: 0 },
      ),
    ],
    orNull(block),
  ],
  [
    'getBlockCommitment',
    'Stake that voted for a block',
    slotParam,
    open(
      { commitment: orNull(list(integer('Stake', 0), 'Stake by depth')), totalStake: lamports('All stake') },
      'The votes',
    ),
  ],
  ['getBlockHeight', 'Number of the newest block', options(READ), count('Number of blocks', 359_120_377)],
  [
    'getBlockProduction',
    'Blocks that leaders made and missed',
    options({ identity: address('Only this leader') }),
    withContext(
      open(
        {
          byIdentity: anything('[slots, blocks] by leader', {}),
          range: open({ firstSlot: slot(), lastSlot: slot() }, 'Slots'),
        },
        'The production',
      ),
    ),
  ],
  ['getBlockTime', 'Time of a block', slotParam, orNull(unixTime())],
  [
    'getBlocks',
    'Slots with a block in a range',
    [...required({ startSlot: slot('First slot') }), ...maybe({ endSlot: slot('Last slot') }), ...options()],
    list(slot(), 'Slots'),
  ],
  [
    'getBlocksWithLimit',
    'The next slots with a block',
    [...required({ startSlot: slot('First slot'), limit: count('Most slots', 100) }), ...options()],
    list(slot(), 'Slots'),
  ],
  ['getFirstAvailableBlock', 'The first slot that the node has', [], slot()],
  [
    'getLatestBlockhash',
    'The newest blockhash',
    options(READ),
    withContext(
      open(
        { blockhash: hash('The hash'), lastValidBlockHeight: count('Last block in which it can be used', 359_120_527) },
        'The blockhash',
      ),
    ),
  ],
  [
    'isBlockhashValid',
    'Whether a blockhash can be used',
    [...required({ blockhash: hash('The hash') }), ...options(READ)],
    withContext(flag('Whether it can be used', true)),
  ],
  [
    'getRecentPerformanceSamples',
    'Transactions and slots per minute',
    maybe({ limit: count('Most samples', 4) }),
    list(
      open(
        {
          slot: slot(),
          numTransactions: count('Transactions', 126_000),
          numSlots: count('Slots', 150),
          samplePeriodSecs: count('Seconds', 60),
        },
        'A sample',
      ),
      'Samples, newest first',
    ),
  ],
  ['getSlot', 'The newest slot', options(READ), slot()],
  ['getSlotLeader', 'The current leader', options(READ), address('Identity of the leader')],
  [
    'getSlotLeaders',
    'Leaders of slots',
    required({ startSlot: slot('First slot'), limit: count('Slots', 10) }),
    list(address('Identity of a leader'), 'Leaders'),
  ],
  ['minimumLedgerSlot', 'The first slot of the ledger of the node', [], slot()],
  ['getMaxRetransmitSlot', 'The highest slot seen by the retransmit stage', [], slot()],
  ['getMaxShredInsertSlot', 'The highest slot seen by shred insertion', [], slot()],
  [
    'getHighestSnapshotSlot',
    'Slots of the newest snapshots',
    [],
    open({ full: slot(), incremental: orNull(slot()) }, 'The snapshots'),
  ],
];

/** The message of the transaction: all behind the count and its one signature. */
const MESSAGE = Buffer.from(EXAMPLES.wire, 'base64').subarray(65).toString('base64');

const transactionMethods: readonly MethodRow[] = [
  [
    'getFeeForMessage',
    'Fee of a message',
    [...required({ message: text('Message in base64', MESSAGE) }), ...options(READ)],
    withContext(orNull(lamports('Fee', 5_000))),
  ],
  [
    'getRecentPrioritizationFees',
    'Priority fees of the last 150 slots',
    maybe({ addresses: list(address(), 'Accounts that the transactions write to') }),
    list(
      open(
        { slot: slot(), prioritizationFee: count('Least micro-lamports per compute unit', 10_000) },
        'The fee of a slot',
      ),
      'Fees',
    ),
  ],
  [
    'getSignatureStatuses',
    'Status of up to 256 transactions',
    [
      ...signatures,
      ...maybe({
        options: Type.Object(
          optional({
            searchTransactionHistory: flag('Search the whole history; Agave before 4.4 needs it in options', true),
            commitment,
            ...READ,
          }),
          { ...OPEN, description: 'Options', examples: [{ searchTransactionHistory: true }] },
        ),
      }),
    ],
    withContext(list(orNull(status), 'The statuses in order; null for unknown ones')),
  ],
  [
    'getSignaturesForAddress',
    'Transactions that name an address, newest first',
    [
      ...addressParam,
      ...options(
        {
          limit: count('At most 1000', 100),
          before: signature('Only older ones'),
          until: signature('Only newer ones'),
          beforeSlot: slot('Only in older slots; excludes before'),
          untilSlot: slot('Only in newer slots; excludes until'),
          ...READ,
        },
        { limit: 100 },
      ),
    ],
    list(signatureRow, 'Transactions'),
  ],
  [
    'getTransaction',
    'A transaction',
    [
      ...required({ signature: signature() }),
      ...options(
        { ...versioned, ...READ, slot: slot('Only if it is in this slot') },
        { encoding: 'json', maxSupportedTransactionVersion: 0 },
      ),
    ],
    orNull(transaction),
  ],
  ['getTransactionCount', 'Transactions since genesis', options(READ), count('Transactions', 452_000_000_000)],
  [
    'getTransactionsForAddress',
    'Transactions of an address with filters; needs an upstream that has the method',
    [
      ...addressParam,
      ...options(
        { transactionDetails: oneOf(['signatures', 'full'], 'How much'), limit: count('At most 1000', 100) },
        { limit: 100 },
      ),
    ],
    open(
      {
        data: list(Type.Unknown(), 'Transactions'),
        paginationToken: orNull(text('Where the next page begins', '381204511:12')),
      },
      'A page',
    ),
  ],
  [
    'requestAirdrop',
    'Lamports on a test cluster',
    [...addressParam, ...required({ lamports: lamports() }), ...options()],
    signature(),
  ],
  [
    'sendTransaction',
    'Sends a signed transaction',
    [
      ...wire,
      ...maybe({
        options: Type.Object(
          optional({
            encoding: oneOf(['base58', 'base64'], 'Form of the transaction; default base58', 'base64'),
            skipPreflight: flag('Do not simulate it first'),
            preflightCommitment: commitment,
            maxRetries: count('Repetitions of the node', 0),
            ...READ,
          }),
          { ...OPEN, description: 'Options', examples: [{ encoding: 'base64' }] },
        ),
      }),
    ],
    signature(),
  ],
  [
    'simulateTransaction',
    'Runs a transaction without sending it',
    [
      ...wire,
      ...options(
        {
          encoding: oneOf(['base58', 'base64'], 'Form of the transaction', 'base64'),
          sigVerify: flag('Check signatures'),
          replaceRecentBlockhash: flag('Use the newest blockhash', true),
          innerInstructions: flag('Return inner instructions'),
          innerInstructionsEncoding: oneOf(['json', 'jsonParsed'], 'Their form since Agave 4.5', 'jsonParsed'),
          ...READ,
        },
        { encoding: 'base64', replaceRecentBlockhash: true },
      ),
    ],
    withContext(simulation),
  ],
];

const vote = open(
  {
    votePubkey: address('Vote account'),
    nodePubkey: address('Identity'),
    activatedStake: lamports('Stake'),
    commission: count('Per cent', 5),
    lastVote: slot('Last vote'),
  },
  'A validator',
  'RpcVoteAccount',
);
const ranked = open(
  {
    rank: count('Rank; the bit in certificates', 0),
    votePubkey: address('Vote account'),
    nodePubkey: address('Identity'),
    blsPubkeyCompressed: text('BLS key, base58', 'm5LyPBJV2y3dLbqa5zvRhNn1FiEXvtNFdrVkvvXVJd2bUbRsbaUqDkbKpQUrvhSpCC'),
    stake: lamports('Stake'),
  },
  'A validator',
  'RpcRankedValidator',
);
const certificate = open(
  {
    block: open(
      { slot: slot('Slot of the block'), blockId: list(count('Byte', 0), 'Block id, 32 bytes') },
      'The last block of TowerBFT',
    ),
    signature: open(
      { signature: list(count('Byte', 0), 'BLS signature, 192 bytes'), bitmap: list(count('Byte', 0), 'Who signed') },
      'The signature',
    ),
  },
  'The certificate; null before it',
);
const clusterMethods: readonly MethodRow[] = [
  [
    'getAgGenesisCert',
    'The certificate with which the chain moved to Alpenglow',
    [],
    orNull(certificate, { examples: [null] }),
  ],
  [
    'getClusterNodes',
    'Nodes of the cluster',
    [],
    list(
      open(
        {
          pubkey: address('Identity'),
          gossip: orNull(text('Address', '127.0.0.1:8001')),
          version: orNull(text('Version', '3.0.6')),
        },
        'A node',
      ),
      'Nodes',
    ),
  ],
  [
    'getEpochInfo',
    'The current epoch',
    options(READ),
    open(
      {
        epoch: count('Epoch', 882),
        slotIndex: count('Slots into the epoch', 180_511),
        slotsInEpoch: count('Slots of the epoch', 432_000),
        absoluteSlot: slot(),
        blockHeight: count('Number of the block', 359_120_377),
        transactionCount: orNull(count('Transactions since genesis', 452_000_000_000)),
      },
      'The epoch',
    ),
  ],
  [
    'getEpochSchedule',
    'Length of epochs',
    [],
    open(
      {
        slotsPerEpoch: count('Slots', 432_000),
        leaderScheduleSlotOffset: count('Slots', 432_000),
        warmup: flag('Whether epochs grew at first'),
        firstNormalEpoch: count('Epoch', 0),
        firstNormalSlot: count('Slot', 0),
      },
      'The schedule',
    ),
  ],
  ['getGenesisHash', 'Hash of the genesis', [], hash('The hash')],
  ['getHealth', '"ok", or an error when the node is behind', [], text('ok', 'ok')],
  ['getIdentity', 'Identity of the node', [], open({ identity: address('Identity') }, 'The identity')],
  [
    'getInflationGovernor',
    'Parameters of inflation',
    options(),
    open(
      {
        initial: Type.Number({ description: 'First rate', examples: [0.08] }),
        terminal: Type.Number({ description: 'Last rate', examples: [0.015] }),
        taper: Type.Number({ description: 'Yearly decrease', examples: [0.15] }),
        foundation: Type.Number({ description: 'Share of the foundation', examples: [0] }),
        foundationTerm: Type.Number({ description: 'Years of that share', examples: [0] }),
      },
      'Parameters',
    ),
  ],
  [
    'getInflationRate',
    'Inflation of this epoch',
    [],
    open(
      {
        total: Type.Number({ description: 'Whole rate', examples: [0.042] }),
        validator: Type.Number({ description: 'Share of validators', examples: [0.042] }),
        foundation: Type.Number({ description: 'Share of the foundation', examples: [0] }),
        epoch: count('Epoch', 882),
      },
      'Rates',
    ),
  ],
  [
    'getInflationReward',
    'Staking rewards of at most 32 addresses',
    [
      ...required({ addresses: list(address(), 'Addresses') }),
      ...options({ epoch: count('Epoch', 881) }, { epoch: 881 }),
    ],
    list(
      orNull(
        open(
          {
            epoch: count('Epoch', 881),
            amount: lamports('Reward'),
            postBalance: lamports('Balance after it'),
            effectiveSlot: slot(),
            commission: orNull(count('Per cent', 5)),
          },
          'A reward',
        ),
      ),
      'Rewards in order',
    ),
  ],
  [
    'getLeaderSchedule',
    'Leaders of an epoch',
    [
      ...maybe({ slot: slot('A slot of the epoch') }),
      ...options({
        identity: address('Only this leader'),
        keyByVoteAccount: flag('Name vote accounts instead of identities; since Agave 4.4'),
      }),
    ],
    orNull(
      Type.Record(Type.String(), list(count('Slot of the epoch', 0), 'Slots'), {
        description: 'Slots by leader',
        examples: [{ [EXAMPLES.address]: [0, 1, 2, 3] }],
      }),
    ),
  ],
  [
    'getRankMap',
    'Stake and BLS keys of the validators of an epoch by rank, to check certificates of Alpenglow; since Agave 4.5',
    [
      ...required({ slot: slot('A slot of the epoch') }),
      ...maybe({
        options: Type.Object(optional({ identity: address('Only this validator'), ...READ }), {
          description: 'Options',
          examples: [{}],
        }),
      }),
    ],
    withContext(
      orNull(
        open(
          {
            epoch: count('Epoch', 1_064),
            totalStake: lamports('Stake of all'),
            validators: list(ranked, 'Validators by rank'),
          },
          'The ranks; null for an epoch that the node does not hold',
        ),
      ),
    ),
  ],
  [
    'getSupply',
    'Supply of SOL',
    options(
      { excludeNonCirculatingAccountsList: flag('Leave out the list', true) },
      { excludeNonCirculatingAccountsList: true },
    ),
    withContext(
      open(
        {
          total: lamports('All'),
          circulating: lamports('Circulating'),
          nonCirculating: lamports('Not circulating'),
          nonCirculatingAccounts: list(address(), 'Accounts'),
        },
        'The supply',
      ),
    ),
  ],
  [
    'getVersion',
    'Version of the node',
    [],
    open(
      { 'solana-core': text('Version', '3.0.6'), 'feature-set': orNull(count('Feature set', 3_640_012_085)) },
      'The version',
    ),
  ],
  [
    'getVoteAccounts',
    'Validators and their stake',
    options({ votePubkey: address('Only this one') }),
    open({ current: list(vote, 'Voting'), delinquent: list(vote, 'Not voting') }, 'Validators'),
  ],
];

const subscription = count('Number of the subscription', 24_040);
const subscriptions: readonly MethodRow[] = [
  ['accountSubscribe', 'Changes of an account', [...addressParam, ...options({ encoding })], subscription],
  [
    'logsSubscribe',
    'Logs of transactions',
    [
      ...required({
        filter: anything('all, allWithVotes, or {mentions: [address]}', { mentions: [EXAMPLES.address] }),
      }),
      ...options(),
    ],
    subscription,
  ],
  [
    'programSubscribe',
    'Changes of accounts of a program',
    [...required({ program: address('The program', TOKEN_PROGRAM) }), ...options({ encoding, filters })],
    subscription,
  ],
  [
    'signatureSubscribe',
    'When a transaction is in a block',
    [...required({ signature: signature() }), ...options()],
    subscription,
  ],
  [
    'transactionSubscribe',
    'Transactions that a filter chooses; needs the plugin streams or an upstream that has it',
    [
      ...required({ filter: anything('Which transactions', { accountInclude: [EXAMPLES.address], failed: false }) }),
      ...options(
        {
          encoding,
          transactionDetails: oneOf(['full', 'accounts', 'signatures', 'none'], 'Details; default full', 'full'),
          maxSupportedTransactionVersion: count('Newest version of transactions that is understood', 1),
          fromSlot: slot('First slot of a replay'),
        },
        { commitment: 'confirmed', maxSupportedTransactionVersion: 1 },
      ),
    ],
    subscription,
  ],
  [
    'parsedTransactionSubscribe',
    'Transactions with a decoded instruction that a filter chooses; needs the plugins streams and parsed',
    [
      ...required({ filter: anything('Which instructions', { programs: [EXAMPLES.address] }) }),
      ...options({
        details: oneOf(['full', 'matched', 'raw'], 'What is sent; default full', 'full'),
        fromSlot: slot('First slot of a replay'),
      }),
    ],
    subscription,
  ],
  [
    'blockSubscribe',
    'Each new block',
    [
      ...required({
        filter: anything('all, or {mentionsAccountOrProgram: address}', { mentionsAccountOrProgram: EXAMPLES.address }),
      }),
      ...options({ encoding }),
    ],
    subscription,
  ],
  ['slotSubscribe', 'Each new slot', [], subscription],
  ['rootSubscribe', 'Each new root', [], subscription],
  ...['account', 'logs', 'program', 'signature', 'transaction', 'parsedTransaction', 'block', 'slot', 'root'].map(
    (name): MethodRow => [
      `${name}Unsubscribe`,
      `Ends a ${name}Subscribe`,
      required({ subscription }),
      flag('Whether it was ended', true),
    ],
  ),
];

const encodedList = required({
  transactions: list(text('Signed transaction', EXAMPLES.wire), 'Up to 5 signed transactions'),
});
const bundleId = text('Id of the bundle', '2e5a9d3f1c7b4a60');
const bundles: readonly MethodRow[] = [
  [
    'sendBundle',
    'Sends up to 5 transactions that are executed together or not at all',
    [
      ...encodedList,
      ...maybe({
        options: Type.Object(
          {
            encoding: Type.Optional(oneOf(['base58', 'base64'], 'Form of the transactions; default base58', 'base64')),
          },
          { ...OPEN, description: 'Options', examples: [{ encoding: 'base64' }] },
        ),
      }),
    ],
    bundleId,
  ],
  [
    'getBundleStatuses',
    'Status of up to 5 bundles',
    required({ bundleIds: list(bundleId, 'Up to 5 ids') }),
    withContext(
      list(
        orNull(
          open({ bundle_id: bundleId, transactions: list(signature(), 'Its transactions'), slot: slot() }, 'A bundle'),
        ),
        'The bundles',
      ),
    ),
  ],
  [
    'simulateBundle',
    'Runs up to 5 transactions without sending them',
    required({
      bundle: open(
        { encodedTransactions: list(text('Signed transaction', EXAMPLES.wire), 'Up to 5 signed transactions') },
        'The transactions',
      ),
    }),
    withContext(
      open(
        {
          summary: anything('succeeded, or why not', 'succeeded'),
          transactionResults: list(Type.Unknown(), 'One per transaction'),
        },
        'What they would do',
      ),
    ),
  ],
];

/** The known methods. */
export function forwardedMethods(): readonly ForwardedMethod[] {
  return [
    ...group(ACCOUNTS, accountMethods),
    ...group(BLOCKS, blockMethods),
    ...group(TRANSACTIONS, transactionMethods),
    ...group(CLUSTER, clusterMethods),
    ...group(SUBSCRIPTIONS, subscriptions).map((method) => ({ ...method, isSubscription: true })),
    ...group(BUNDLES, bundles),
  ];
}
