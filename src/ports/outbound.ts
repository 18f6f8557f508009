/** Requests to addresses that users give. There is no other way out for them. */
export interface OutboundRequest {
  readonly method: 'GET' | 'POST';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** One deadline for DNS, connect, TLS, headers and body. */
  readonly timeoutMs: number;
  /** Bytes of the response that are kept; the rest is thrown away. */
  readonly keepBytes: number;
  /** Bytes after which the response is cut off. */
  readonly maxBytes: number;
  /** Status and headers decide already; a body that does not end is cut off and is no failure. */
  readonly bodyOptional?: boolean;
  readonly signal?: AbortSignal;
}

export interface OutboundResponse {
  readonly status: number;
  /** Names in lower case; repeated ones joined by ", ". */
  readonly headers: Readonly<Record<string, string>>;
  /** At most `keepBytes`. */
  readonly body: Buffer;
  /** Whether bytes are missing from `body`. */
  readonly truncated: boolean;
}

/** Opened per use: the plugin that makes it states what it allows. */
export interface OutboundPolicy {
  /** Networks that are allowed although the block list holds them. */
  readonly allowCidrs: readonly string[];
  readonly allowHttp: boolean;
  /** Only these origins (`https://host:port`) are asked, whatever a URL names; absent: all that the other members allow. */
  readonly onlyOrigins?: readonly string[];
  readonly allowPorts: readonly number[] | null;
  /** PEM file with further certificate authorities. */
  readonly caFile: string | null;
  /** Sockets per target. */
  readonly maxConnections: number;
  /** Config section that holds `allowCidrs`, named in the sentence that tells what to change. */
  readonly section?: string;
}

export type OutboundFailure =
  | 'OUTBOUND_BAD_URL'
  | 'OUTBOUND_BLOCKED_ADDRESS'
  | 'OUTBOUND_DNS'
  | 'OUTBOUND_CONNECT'
  | 'OUTBOUND_TLS'
  | 'OUTBOUND_TIMEOUT'
  | 'OUTBOUND_RESET'
  | 'OUTBOUND_BAD_RESPONSE'
  | 'OUTBOUND_TOO_LARGE';

/** The guarded client: addresses are vetted where the socket connects, redirects are never followed. */
export interface OutboundClient {
  /** Throws a CodedError with an `OutboundFailure` code. */
  request(request: OutboundRequest): Promise<OutboundResponse>;
  /** Checks scheme, port, user info and literal addresses without any look-up; returns a plain sentence or null when fine. */
  refusal(url: string): string | null;
  close(): Promise<void>;
}

export interface Outbound {
  open(policy: OutboundPolicy): OutboundClient;
}
