import { decode32 } from '../../src/lib/base58.ts';
import {
  type ChainReader,
  defineRoute,
  JsonText,
  json,
  type Price,
  type Route,
  RpcError,
  type RpcMethod,
  type Tag,
  Type,
} from '../../src/plugin/plugin.ts';
import { NATIVE_SOL_MINT } from '../../src/solana/programs.ts';
import {
  address,
  count,
  EXAMPLES,
  flag,
  lamports,
  oneOf,
  orNull,
  signature,
  slot,
  text,
  u64,
  unixTime,
  withoutExamples,
} from '../../src/solana/schemas.ts';
import type { ParsedConfig } from './config.ts';
import type { FetchTransactions } from './fetch.ts';
import { historyOf, type ParsedHistoryParts, scanCredits, scanOf } from './history.ts';
import { FOREVER, NOW } from './interfaces/index.ts';
import {
  COMMITMENTS,
  MAX_BUDGET,
  MAX_FILTERS,
  MAX_LIMIT,
  MAX_NAMES,
  MAX_TRANSACTIONS,
  RAW_FORMS,
  readHistory,
  readScan,
  readTransactions,
  SCOPES,
  SHAPES,
  SORT_ORDERS,
  STATUSES,
  TOKEN_ACCOUNT_MODES,
} from './requests.ts';
import { type ElementParts, elementTexts, learnAs } from './transactions.ts';

export interface ParsedRouteParts {
  readonly config: ParsedConfig;
  readonly fetch: FetchTransactions;
  readonly elements: ElementParts;
}

export const TAG: Tag = {
  name: 'Parsed Events',
  description: 'Transactions with instructions decoded by the IDLs of programs',
};

const refusal = Type.Object({ error: Type.String(), code: Type.Integer(), details: Type.Optional(Type.String()) });
export const PARSED_REFUSALS = {
  400: refusal,
  401: refusal,
  403: refusal,
  429: refusal,
  503: refusal,
  504: refusal,
} as const;

const nullable = (description: string) => orNull(address(description));

const summary = orNull(
  Type.Object(
    {
      type: oneOf(
        ['transfer', 'swap', 'create_account', 'create_token_account', 'add_liquidity', 'remove_liquidity'],
        'What was done',
      ),
      description: text('The same in words', '86xC…o2MMY transferred 1.5 SOL to GokiV…5bnpH.'),
      parsedData: Type.Unknown({ description: 'Amounts and mints of a swap; else null', examples: [null] }),
    },
    { title: 'Summary', description: 'What was done; null where that is not certain' },
  ),
);

const decoded = Type.Object(
  {
    args: Type.Unknown({
      description: 'Arguments by name; integers of 64 bits and more as text',
      examples: [{ amount: '25' }],
    }),
    accounts: Type.Array(
      Type.Object({
        name: text('Name of the account in the instruction', 'source'),
        pubkey: address('The account'),
        isSigner: flag('Whether it signed the transaction'),
        isWritable: flag('Whether the transaction may change it', true),
      }),
      { description: 'Accounts with their names' },
    ),
  },
  { title: 'DecodedInstruction', description: 'Arguments and accounts by name' },
);

const instruction = Type.Object(
  {
    instructionIndex: count('Index of the instruction, or of the one that called it', 0),
    innerInstructionIndex: orNull(count('Index among the calls of that instruction; null for itself', 0)),
    stackHeight: orNull(count('1 for an instruction of the message, 2 for what it calls', 1)),
    programId: address('Program'),
    rawAccounts: Type.Array(address('Account'), { description: 'Accounts in order' }),
    rawData: text('Data, base58', '3Bxs4Zo3z4hxWBZZ'),
    summary,
    programName: orNull(text('Name of the program; null if no interface is known', 'token')),
    instructionName: orNull(text('Name of the instruction; null if it cannot be decoded', 'transfer_checked')),
    decoded: orNull(decoded),
  },
  { title: 'ParsedInstruction', description: 'An instruction' },
);

const parsedTransaction = Type.Object(
  {
    slot: slot(),
    blockTime: orNull(unixTime()),
    fee: count('Fee in lamports', 5_000),
    feePayer: nullable('Who paid the fee'),
    transactionStatus: oneOf(['OK', 'ERROR'], 'Whether the transaction succeeded'),
    error: Type.Optional(Type.Unknown({ description: 'Error of a failed transaction', examples: ['AccountNotFound'] })),
    decodedError: Type.Optional(
      Type.Object(
        {
          instructionIndex: count('Index of the instruction that failed', 0),
          programId: address('Program that failed'),
          programName: text('Its name; its address if it has none', 'whirlpool'),
          code: count('Code of the error', 6_000),
          name: text('Name of the error', 'SlippageExceeded'),
          msg: orNull(text('Its message', 'Slippage tolerance exceeded')),
        },
        { description: 'The error by the interface of the program, if that lists it' },
      ),
    ),
    nativeTransfers: Type.Array(
      Type.Object({
        fromUserAccount: nullable('Account that sent'),
        toUserAccount: nullable('Account that received'),
        amount: lamports(),
      }),
      { description: 'Transfers of SOL' },
    ),
    tokenTransfers: Type.Array(
      Type.Object({
        fromUserAccount: nullable('Owner that sent; null for mints'),
        toUserAccount: nullable('Owner that received; null for burns'),
        fromTokenAccount: nullable('Token account it left'),
        toTokenAccount: nullable('Token account it reached'),
        rawTokenAmount: u64('Raw units', 2_500_000),
        decimals: count('Decimals of the mint', 6),
        tokenStandard: text('Token standard', 'Fungible'),
        mint: address('Mint'),
      }),
      { description: 'Transfers of tokens' },
    ),
    summary,
    instructions: Type.Array(instruction, { description: 'Instructions in order of execution' }),
  },
  { title: 'ParsedTransaction', description: 'The transaction' },
);

export const parsedReply = Type.Object(
  {
    signature: signature(),
    parserStatus: oneOf(['OK', 'ERROR'], 'Whether `parsed` is there'),
    parsed: Type.Optional(parsedTransaction),
    parserError: Type.Optional(
      Type.Object(
        {
          code: oneOf(
            ['transaction_not_found', 'parse_failed', 'interface_too_costly'],
            'What is wrong; interface_too_costly: one that the project has uploaded',
          ),
          message: text('The same in words', 'transaction not found'),
        },
        { description: 'Why `parsed` is not there' },
      ),
    ),
    rawTransaction: Type.Optional(
      Type.Unknown({ description: 'As getTransaction returns it, if wanted', examples: [{ slot: 381_204_511 }] }),
    ),
  },
  { title: 'ParsedEvent', description: 'A transaction of the answer' },
);

const closed = { additionalProperties: false } as const;

const shown = {
  commitment: Type.Optional(oneOf(COMMITMENTS, 'Default confirmed')),
  rawTransaction: Type.Optional(oneOf(RAW_FORMS, 'Encoding of `rawTransaction`; default none')),
  includeRawTransaction: Type.Optional({
    ...withoutExamples(flag('The older form of `rawTransaction: json`')),
    deprecated: true,
  }),
};
/** One of both forms. */
const oneRawForm = {
  not: {
    properties: { rawTransaction: {}, includeRawTransaction: {} },
    required: ['rawTransaction', 'includeRawTransaction'],
  },
} as const;

function priceOf(credits: () => number): Price {
  return {
    product: 'enhancedApi',
    get credits() {
      return credits();
    },
    groups: ['das'],
  };
}

/** `POST /v1/parsed-events/transactions`: up to 100 transactions by signature, in the order of the request. */
export function transactionsRoute({ config, fetch, elements }: ParsedRouteParts): Route {
  return defineRoute({
    method: 'POST',
    path: '/v1/parsed-events/transactions',
    summary: 'Up to 100 transactions, decoded',
    description:
      'Answers in the order of the request, duplicates included. What the chain does not have is an element with `parserStatus: ERROR`.',
    tag: TAG,
    auth: 'key',
    errors: 'wallet',
    price: priceOf(() => config.credits.request),
    get timeoutMs() {
      return config.timeoutMs;
    },
    body: Type.Object(
      {
        transactions: Type.Array(signature(), { maxItems: MAX_TRANSACTIONS, description: 'Signatures' }),
        ...shown,
      },
      { ...closed, ...oneRawForm, description: 'The transactions' },
    ),
    explain: readTransactions,
    replies: { 200: Type.Array(parsedReply, { description: 'The transactions' }), ...PARSED_REFUSALS },
    async handler({ body, caller, signal, tenant }) {
      const { signatures, commitment, rawTransaction } = readTransactions(body);
      const asker = { signal, tenant, project: caller?.projectId ?? null };
      const found = await fetch(signatures, commitment, asker);
      const wanted = signatures.map((one) => ({ signature: one, found: found.get(one) ?? null }));
      const texts = await elementTexts(wanted, rawTransaction, elements, asker);
      return json(new JsonText(`[${texts.join()}]`));
    },
  });
}

const range = (description: string, example: number) => {
  const bound = (what: string) => Type.Optional(Type.Integer({ minimum: 0, description: what, examples: [example] }));
  return Type.Optional(
    Type.Object(
      { gt: bound('Above'), gte: bound('At least'), lt: bound('Below'), lte: bound('At most') },
      { ...closed, description, examples: [{ gte: example }] },
    ),
  );
};

const historyMembers = {
  address: address('Address whose history is read'),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_LIMIT,
      description: 'Transactions of a page; default 100',
      examples: [10],
    }),
  ),
  beforeSignature: Type.Optional(signature('Only older transactions than this')),
  afterSignature: Type.Optional(signature('Only newer transactions than this')),
  paginationToken: Type.Optional(text('`paginationToken` of the answer before', '381204511:12')),
  sortOrder: Type.Optional(oneOf(SORT_ORDERS, 'Newest first (default), or oldest first')),
  status: Type.Optional(oneOf(STATUSES, 'Outcome of the transactions; default succeeded')),
  tokenAccounts: Type.Optional(
    oneOf(
      TOKEN_ACCOUNT_MODES,
      'Also transactions of token accounts that the address owns: those that change a balance, or all; default none',
    ),
  ),
  minContextSlot: Type.Optional(withoutExamples(slot('Refuse to answer before this slot'))),
  slot: range('Slots', 381_204_000),
  time: range('Unix times in seconds', 1_763_923_200),
  ...shown,
};

const token = Type.Optional(text('Where the next page begins; absent at the end', '381204511:12'));

/** `POST /v1/parsed-events/transaction-history`: a page of the history of an address. */
export function parsedHistoryRoute({ config }: Pick<ParsedRouteParts, 'config'>, parts: ParsedHistoryParts): Route {
  return defineRoute({
    method: 'POST',
    path: '/v1/parsed-events/transaction-history',
    summary: 'The history of an address, decoded',
    description:
      'A page may be empty and have a `paginationToken` all the same. The address is indexed with the first call, which may answer 503 with a time for the next one.',
    tag: TAG,
    auth: 'key',
    errors: 'wallet',
    price: priceOf(() => config.credits.request),
    get timeoutMs() {
      return config.timeoutMs;
    },
    body: Type.Object(historyMembers, {
      ...closed,
      ...oneRawForm,
      description: 'The question',
      examples: [{ address: EXAMPLES.address, limit: 10 }],
    }),
    explain: readHistory,
    replies: {
      200: Type.Object(
        { data: Type.Array(parsedReply, { description: 'Transactions' }), paginationToken: token },
        { title: 'ParsedHistoryPage', description: 'A page' },
      ),
      ...PARSED_REFUSALS,
    },
    handler: async ({ body, caller, signal, tenant }) =>
      json(await historyOf(parts, readHistory(body), { caller, signal, tenant, project: caller?.projectId ?? null })),
  });
}

const scope = Type.Optional(
  oneOf(SCOPES, 'address (default): only what concerns the address; transaction: anything in the transaction'),
);

const match = Type.Object(
  {
    programs: Type.Optional(
      Type.Array(
        Type.Object(
          {
            programId: address('Program that an instruction calls'),
            instructions: Type.Optional(
              Type.Array(text('Name, as the IDL spells it or in snake_case', 'swap'), {
                maxItems: MAX_NAMES,
                description: 'Only these instructions',
              }),
            ),
            discriminators: Type.Optional(
              Type.Array(text('1 to 8 bytes in hex', 'f8c69e91e17587c8'), {
                maxItems: MAX_NAMES,
                description: 'Only instructions whose data begins so',
              }),
            ),
            scope,
          },
          { ...closed, description: 'A program; a name or a discriminator of the lists suffices' },
        ),
        { maxItems: MAX_FILTERS, description: 'One of these programs' },
      ),
    ),
    mints: Type.Optional(
      Type.Array(
        Type.Object(
          {
            mint: text(`Mint of a token balance; ${NATIVE_SOL_MINT} for SOL`, NATIVE_SOL_MINT),
            scope,
          },
          { ...closed, description: 'A mint' },
        ),
        { maxItems: MAX_FILTERS, description: 'One of these mints' },
      ),
    ),
  },
  {
    ...closed,
    description: 'What matches; with both, both have to',
    examples: [{ mints: [{ mint: NATIVE_SOL_MINT }] }],
  },
);

/** `POST /v1/parsed-events/scan`: searches the history of an address. */
export function scanRoute({ config }: Pick<ParsedRouteParts, 'config'>, parts: ParsedHistoryParts): Route {
  return defineRoute({
    method: 'POST',
    path: '/v1/parsed-events/scan',
    summary: 'Searches the history of an address',
    description:
      'Answers the transactions that match, their signatures, or how many there are. An answer without matches and with a `paginationToken` is ordinary.',
    tag: TAG,
    auth: 'key',
    errors: 'wallet',
    price: {
      ...priceOf(() => config.credits.request),
      // The most that one call can cost; each is charged for what it searched.
      get credits() {
        return scanCredits(config, MAX_BUDGET);
      },
      get refusedCredits() {
        return scanCredits(config, 0);
      },
    },
    get timeoutMs() {
      return config.timeoutMs;
    },
    body: Type.Object(
      {
        ...historyMembers,
        match,
        budget: Type.Optional(
          Type.Object(
            {
              maxScannedTransactions: Type.Optional(
                Type.Integer({ minimum: 1, maximum: MAX_BUDGET, description: 'Default 10,000', examples: [2_000] }),
              ),
            },
            { ...closed, description: 'How much is searched' },
          ),
        ),
        returnShape: Type.Optional(oneOf(SHAPES, 'What is returned; default transactions')),
      },
      { ...closed, ...oneRawForm, description: 'The search' },
    ),
    explain: readScan,
    replies: {
      200: Type.Object(
        {
          data: Type.Optional(
            Type.Array(
              Type.Union([
                parsedReply,
                Type.Object(
                  {
                    signature: signature(),
                    slot: slot(),
                    transactionIndex: count('Place in the block', 12),
                    blockTime: orNull(unixTime()),
                  },
                  { title: 'ScannedSignature', description: 'With `returnShape: signatures`' },
                ),
              ]),
              { description: 'What matches; absent with `returnShape: count`' },
            ),
          ),
          paginationToken: token,
          scan: Type.Object(
            {
              stoppedOn: oneOf(['windowEnd', 'limit', 'budget', 'deadline'], 'Why the search ended'),
              scannedTransactions: count('Transactions that were searched', 2_000),
              matchedTransactions: count('Transactions that match', 3),
              scannedThrough: Type.Optional(
                Type.Object(
                  { slot: slot(), blockTime: orNull(unixTime()) },
                  { description: 'The last transaction that was searched; absent without one' },
                ),
              ),
              creditsCharged: Type.Number({ description: 'Price of this call', examples: [12] }),
            },
            { description: 'What was searched' },
          ),
        },
        { title: 'ParsedScan', description: 'A page of a search' },
      ),
      ...PARSED_REFUSALS,
    },
    handler: async ({ body, caller, signal, tenant }) =>
      json(await scanOf(parts, readScan(body), { caller, signal, tenant, project: caller?.projectId ?? null })),
  });
}

interface DescribeParts {
  readonly chain: () => ChainReader | null;
  readonly config: ParsedConfig;
  readonly elements: ElementParts;
}

const describeQuestion = Type.Object(
  { program: address('Program') },
  { additionalProperties: false, description: 'The program' },
);
const describeParams = Type.Union([describeQuestion, Type.Array(describeQuestion, { minItems: 1, maxItems: 1 })]);

const names = (description: string, example: string) =>
  Type.Array(text('Name in snake_case', example), { description });

/** The calls by which clients of Parsed Streams find out what they can ask for, and whether the connection is alive. */
export function describeParsedMethods({ chain, config, elements }: DescribeParts): readonly RpcMethod[] {
  const common = { tag: TAG, auth: 'key' } as const;
  const priced = { product: 'enhancedApi', groups: ['rpc'] } as const;
  return [
    {
      ...common,
      name: 'describeProgram',
      summary: 'What the newest interface of a program has, for filters of streams',
      params: describeParams,
      price: {
        ...priced,
        get credits() {
          return config.credits.request;
        },
      },
      result: Type.Object(
        {
          id: address('Program'),
          name: orNull(text('Name of the program', 'token')),
          instructions: names('Names of its instructions', 'transfer_checked'),
          events: names('Names of its events', 'swap_event'),
          roles: names('Names of the accounts of its instructions', 'authority'),
        },
        { title: 'DescribedProgram', description: 'Lists are empty for a program without an interface' },
      ),
      async handler({ params: given, caller, signal, tenant }) {
        const [{ program }] = [given].flat() as [{ readonly program: string }];
        if (decode32(program) === null) throw new RpcError('invalidParams', { details: 'program must be an address' });
        const asker = { signal, tenant, project: caller?.projectId ?? null };
        const { versionsOf } = await learnAs(new Map([[program, NOW]]), elements, asker);
        // Sources come in the order in which they are asked.
        const newest = versionsOf(program).find((one) => one.to === FOREVER && one.program !== null)?.program ?? null;
        return {
          id: program,
          name: newest?.name ?? null,
          instructions: [...new Set(newest?.instructions())],
          events: [...new Set(newest?.events())],
          roles: newest?.roles() ?? [],
        };
      },
    },
    {
      ...common,
      name: 'ping',
      summary: 'The current slot, to keep a connection open',
      params: Type.Array(Type.Unknown(), { maxItems: 0, description: 'Nothing' }),
      price: { ...priced, credits: 0 },
      result: slot('Newest slot that is known'),
      handler() {
        const { tipSlot, cursorSlot } = chain()?.status() ?? { tipSlot: null, cursorSlot: null };
        const newest = tipSlot ?? cursorSlot;
        if (newest === null) throw new RpcError('unavailable', { details: 'no slot is known yet' });
        return newest;
      },
    },
  ];
}
