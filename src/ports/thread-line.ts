import { type ServiceToken, serviceToken } from './service.ts';

/**
 * A line to the other threads of this process that open one of the same name, as plain data and bytes of any size, in order. Unlike the
 * bus it reaches no other process. What is sent while nobody listens is lost; the receiver has to bound what waits for it.
 */
export interface ThreadLine {
  /** A view of bytes is sent with the whole buffer behind it. */
  post(message: object): void;
  close(): void;
}

export type OpenThreadLine = (name: string, take: (message: unknown) => void) => ThreadLine;

/** Offered by the kernel. */
export const kernelThreadLine: ServiceToken<OpenThreadLine> = serviceToken('kernel.thread-line');
