import { defineRoute, JsonText, json, type Price, type Route, type Tag, Type } from '../../src/plugin/plugin.ts';
import { address, count, flag, oneOf, orNull, signature, slot, text, unixTime } from '../../src/solana/schemas.ts';
import type { ParsedConfig } from './config.ts';
import { COMMITMENTS, MAX_TRANSACTIONS, RAW_FORMS, readTransactions } from './requests.ts';
import { type ElementParts, elementText, type FetchTransactions, type Found, learnFor } from './transactions.ts';

export interface RouteParts {
  readonly config: ParsedConfig;
  readonly fetch: FetchTransactions;
  readonly elements: ElementParts;
}

const TAG: Tag = { name: 'Parsed Events', description: 'Transactions with instructions decoded by the IDLs of programs' };

const refusal = Type.Object({ error: Type.String(), code: Type.Integer() });
const REFUSALS = { 400: refusal, 401: refusal, 403: refusal, 429: refusal, 503: refusal, 504: refusal } as const;

const nullable = (description: string) => orNull(address(description));

const decoded = Type.Object(
  {
    args: Type.Unknown({ description: 'Arguments by name; integers of 64 bits and more as text', examples: [{ amount: '25' }] }),
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
    summary: Type.Unknown({ description: 'Summary of the instruction, or null', examples: [null] }),
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
          programName: orNull(text('Its name', 'whirlpool')),
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
        amount: count('Lamports', 1_500_000_000),
      }),
      { description: 'Transfers of SOL' },
    ),
    tokenTransfers: Type.Array(
      Type.Object({
        fromUserAccount: nullable('Owner that sent; null for mints'),
        toUserAccount: nullable('Owner that received; null for burns'),
        fromTokenAccount: nullable('Token account it left'),
        toTokenAccount: nullable('Token account it reached'),
        rawTokenAmount: count('Raw units', 2_500_000),
        decimals: count('Decimals of the mint', 6),
        tokenStandard: text('Token standard', 'Fungible'),
        mint: address('Mint'),
      }),
      { description: 'Transfers of tokens' },
    ),
    summary: Type.Unknown({ description: 'Summary of the transaction, or null', examples: [null] }),
    instructions: Type.Array(instruction, { description: 'Instructions in order of execution' }),
  },
  { title: 'ParsedTransaction', description: 'The transaction' },
);

const result = Type.Object(
  {
    signature: signature(),
    parserStatus: oneOf(['OK', 'ERROR'], 'Whether `parsed` is there'),
    parsed: Type.Optional(parsedTransaction),
    parserError: Type.Optional(
      Type.Object(
        {
          code: oneOf(['transaction_not_found', 'parse_failed'], 'What is wrong'),
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
  includeRawTransaction: Type.Optional(flag('The older form of `rawTransaction: json`')),
};

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
export function transactionsRoute({ config, fetch, elements }: RouteParts): Route {
  return defineRoute({
    method: 'POST',
    path: '/v1/parsed-events/transactions',
    summary: 'Up to 100 transactions, decoded',
    description:
      'Answers in the order of the request, duplicates included. What the chain does not have is an element with `parserStatus: ERROR`.',
    tag: TAG,
    auth: 'key',
    errors: 'plain',
    price: priceOf(() => config.credits.request),
    get timeoutMs() {
      return config.timeoutMs;
    },
    body: Type.Object(
      {
        transactions: Type.Array(signature(), { maxItems: MAX_TRANSACTIONS, description: 'Signatures' }),
        ...shown,
      },
      { ...closed, description: 'The transactions' },
    ),
    explain: readTransactions,
    replies: { 200: Type.Array(result, { description: 'The transactions' }), ...REFUSALS },
    async handler({ body, signal, tenant }) {
      const { signatures, commitment, rawTransaction } = readTransactions(body);
      const asker = { signal, tenant };
      const found = await fetch(signatures, commitment, asker);
      await learnFor(
        [...found.values()].filter((one): one is Found => one !== null && 'tx' in one),
        elements,
        asker,
      );
      const texts: string[] = [];
      for (const one of signatures) texts.push(await elementText(one, found.get(one) ?? null, rawTransaction, elements));
      return json(new JsonText(`[${texts.join()}]`));
    },
  });
}
