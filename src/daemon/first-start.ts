import { accessBootstrap, type FirstKey } from '../ports/access.ts';
import { operatorBootstrap } from '../ports/dashboard.ts';
import type { ServiceToken } from '../ports/service.ts';
import type { Assembly } from './assemble.ts';

export interface FirstStartOptions {
  /** Makes the first project and key when the store has none: with this key, or with a random one. */
  readonly firstProject: { readonly key?: string } | null;
  /** Makes the operators' token when there is none: only where somebody is told of it. */
  readonly firstOperator?: boolean;
}

/** What a start made because it was the first one; null where it was not. Both are shown once. */
export interface FirstStart {
  readonly key: FirstKey | null;
  readonly operatorToken: string | null;
}

export async function makeFirstThings(assembly: Assembly, options: FirstStartOptions): Promise<FirstStart> {
  const { firstProject, firstOperator = false } = options;
  const access = firstProject === null ? undefined : find(assembly, accessBootstrap);
  const dashboard = firstOperator ? find(assembly, operatorBootstrap) : undefined;
  return {
    key: (await access?.ensureFirstProject(firstProject ?? {})) ?? null,
    operatorToken: (await dashboard?.ensureOperatorToken()) ?? null,
  };
}

function find<T>({ plugins }: Assembly, token: ServiceToken<T>): T | undefined {
  const services = plugins.flatMap(({ contribution }) => contribution.services ?? []);
  return services.find((one) => one.token.id === token.id)?.service as T | undefined;
}
