import { type Static, Type } from '@sinclair/typebox';

const closed = { additionalProperties: false } as const;

export const signupConfig = Type.Object(
  {
    treasury: Type.Union([Type.String({ format: 'address' }), Type.Null()], {
      default: null,
      description: 'wallet that receives payments; for tokens, any token account that it owns',
    }),
    lamports: Type.Union([Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()], {
      default: null,
      description: 'price in lamports; null = not in SOL',
    }),
    tokens: Type.Array(
      Type.Object(
        {
          symbol: Type.String({ pattern: '^[A-Za-z0-9]{1,12}$', description: 'what clients call it: USDC' }),
          mint: Type.String({ format: 'address', description: 'its mint' }),
          decimals: Type.Integer({ minimum: 0, maximum: 18, description: 'of the mint' }),
          amount: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'price in raw units' }),
        },
        closed,
      ),
      { default: [], maxItems: 16, description: 'prices in tokens' },
    ),
    plan: Type.String({ minLength: 1, default: 'agent', description: 'plan of the created projects' }),
    credits: Type.Integer({
      minimum: 0,
      default: 0,
      description: 'prepaid credits for each payment, including the first',
    }),
    perCall: Type.Object(
      {
        enabled: Type.Boolean({
          default: false,
          description: 'answer calls without a key with their price (402, x402), and take payments for them',
        }),
        plan: Type.String({
          minLength: 1,
          default: 'agent',
          description:
            'plan whose price, divided by its credits, is that of a credit, and whose limits hold; its credits are not given',
        }),
        mint: Type.Union([Type.String({ format: 'address' }), Type.Null()], {
          default: null,
          description: 'mint in which calls are paid, of dollars; null = USDC of the chain',
        }),
        minimum: Type.Integer({
          minimum: 1,
          maximum: 1_000_000,
          default: 1_000,
          description: 'least payment in raw units; what a call does not use stays with the wallet',
        }),
        feePayerFile: Type.Union([Type.String({ minLength: 1 }), Type.Null()], {
          default: null,
          description:
            'keypair of the wallet that pays the fees of payments, as solana-keygen writes it; null = made on the local chain',
        }),
        waitMs: Type.Integer({
          minimum: 1_000,
          maximum: 55_000,
          default: 45_000,
          description:
            'how long a call waits until its payment is final; later payments count too, when they are shown again',
        }),
      },
      { ...closed, default: {}, description: 'calls that are paid one by one, without a key' },
    ),
  },
  {
    ...closed,
    default: {},
    description:
      'API keys for payments on the chain; needs `signup` in the list of plugins, which is not there by default',
  },
);

export type SignupConfig = Static<typeof signupConfig>;

/** Coded errors of this plugin. @public */
export const SIGNUP_ERRORS = {
  SIGNUP_CONFIG: 'signup.treasury is not an address, no price is set, or the plan does not exist',
  SIGNUP_PER_CALL: 'calls cannot be paid one by one as signup.perCall says',
  SIGNUP_NO_ACCESS: 'the plugin needs the plugin access, which creates projects and keys',
} as const;
