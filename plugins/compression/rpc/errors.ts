import { RpcError } from '../../../src/kernel/plugin.ts';

/** The request cannot be meant. */
export const invalid = (details: string) => new RpcError('invalidParams', { details });

/** What is asked for does not exist. */
export const notFound = (detail: string) => new RpcError('notFound', { message: `Record Not Found: ${detail}` });

export const unavailable = (details: string) => new RpcError('unavailable', { details });

export const timedOut = (details: string) => new RpcError('timeout', { details });

/** We know the answer to be wrong, or cannot know it to be right. */
export const withheld = (details: string) => new RpcError('internal', { details });
