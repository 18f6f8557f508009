/** A name under which one plugin offers a service to others. The type parameter is the service's interface. */
export interface ServiceToken<T> {
  readonly id: string;
  /** Never set; carries the type only. */
  readonly shape?: T;
}

/** Makes a token. The id is what start-up errors name, for example `access.bootstrap`. */
export function serviceToken<T>(id: string): ServiceToken<T> {
  return { id };
}

export interface ProvidedService<T = unknown> {
  readonly token: ServiceToken<T>;
  readonly service: T;
}
