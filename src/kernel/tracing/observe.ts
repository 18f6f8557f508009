import { CodedError } from '../../lib/coded-error.ts';
import type { Facts, Span, Tracer, Work } from '../../ports/tracing.ts';

/** Longer names come only from clients who make them up. */
const MAX_NAME = 100;

export const shortName = (name: string): string => (name.length <= MAX_NAME ? name : name.slice(0, MAX_NAME));

/** Does a piece of work in sight of the tracer. `outcome` tells how a result counts; a throw counts as a failure. */
export async function observe<T>(
  tracer: Tracer,
  work: Work,
  run: (span: Span) => T | Promise<T>,
  outcome: (result: T) => { readonly ok: boolean; readonly facts?: Facts } = () => ({ ok: true }),
): Promise<T> {
  const span = tracer.begin(work);
  let result: T;
  try {
    result = await span.run(() => run(span));
  } catch (error) {
    span.end(false, failureFacts(error));
    throw error;
  }
  const { ok, facts } = outcome(result);
  span.end(ok, facts);
  return result;
}

/** The code or the class of an error and never its message, which may hold anything. */
export function failureFacts(error: unknown): Facts {
  if (error instanceof CodedError) return { 'error.type': error.code };
  return { 'error.type': error instanceof Error ? error.name : typeof error };
}
