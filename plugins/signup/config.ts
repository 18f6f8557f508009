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
  SIGNUP_NO_ACCESS: 'the plugin needs the plugin access, which creates projects and keys',
} as const;
