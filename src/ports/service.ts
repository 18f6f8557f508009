/** The name of a service that one plugin offers to others. The type parameter is the interface of the service. */
export interface ServiceToken<T> {
  readonly id: string;
  /** Never set; only carries the type. */
  readonly shape?: T;
}

/** Creates a token. Start-up errors show its id, for example `access.bootstrap`. */
export function serviceToken<T>(id: string): ServiceToken<T> {
  return { id };
}

export interface ProvidedService<T = unknown> {
  readonly token: ServiceToken<T>;
  readonly service: T;
}
