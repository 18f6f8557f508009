import { RpcError } from '../../../src/kernel/plugin.ts';

/** Clients of these methods read the body only of a 200. */
const status = 200;

/** The request cannot be meant. */
export const invalid = (details: string) => new RpcError('invalidParams', { details, status });

/** What is asked for does not exist. */
export const notFound = (detail: string) =>
  new RpcError('notFound', { message: `Record Not Found: ${detail}`, status });

export const unavailable = (details: string) => new RpcError('unavailable', { details, status });

export const timedOut = (details: string) => new RpcError('timeout', { details, status });

/** We know the answer to be wrong, or cannot know it to be right. */
export const withheld = (details: string) => new RpcError('internal', { details, status });
