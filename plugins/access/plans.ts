/** Names of the plans. */
export const PLANS = ['free', 'agent', 'developer', 'business', 'professional', 'unlimited'] as const;

/** What a self-hoster's new project gets. */
export const DEFAULT_PLAN = 'unlimited';

export function isPlan(name: string): boolean {
  return (PLANS as readonly string[]).includes(name);
}
