import type { Transitions } from '../../../lib/transitions.ts';

/** Which chain an upstream serves, as far as is known. Only those of ours are in service. */
export type ServedChain = 'ours' | 'unknown' | 'other';

export const SERVED_CHAIN = {
  'names ours': { ours: 'ours', unknown: 'ours', other: 'ours' },
  'names another': { ours: 'other', unknown: 'other', other: 'other' },
  /** It has no such method, and never named a chain. */
  'cannot tell': { ours: 'ours', unknown: 'ours' },
  'does not answer': { ours: 'unknown', unknown: 'unknown' },
  /** It joined the pool, or the pool got its chain. */
  'has to tell': { ours: 'unknown', unknown: 'unknown' },
  'need not tell': { ours: 'ours', unknown: 'ours' },
} as const satisfies Transitions<ServedChain, string>;

/** Why an upstream is left out for a while: it fails, limits our rate, refuses our key, or was proven wrong. */
export type CoolDown = 'none' | 'failing' | 'limited' | 'refused' | 'distrusted';

export const COOL_DOWN = {
  /** A good answer proves nothing about a limit, a key or the truth. */
  ok: { failing: 'none' },
  failed: {},
  'failed again': { none: 'failing', failing: 'failing', limited: 'failing', refused: 'failing' },
  limited: { none: 'limited', failing: 'limited', limited: 'limited', refused: 'limited' },
  refused: { none: 'refused', failing: 'refused', limited: 'refused', refused: 'refused' },
  contradicted: {
    none: 'distrusted',
    failing: 'distrusted',
    limited: 'distrusted',
    refused: 'distrusted',
    distrusted: 'distrusted',
  },
  'time is up': { failing: 'none', limited: 'none', refused: 'none', distrusted: 'none' },
} as const satisfies Transitions<CoolDown, string>;
