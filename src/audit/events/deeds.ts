/** What agent programs did to the world, whoever knows of it. */
export type DeedEvent =
  | { readonly type: 'launched'; readonly attemptId: string }
  /** With a launch: turns that run on the machine, and how many its owner allowed at once. */
  | { readonly type: 'turns_running'; readonly node: string; readonly count: number; readonly allowed: number }
  /** A program took a text up and began with it. */
  | { readonly type: 'taken'; readonly mark: string; readonly attemptId: string }

/** What is seen after everything healed and had its time. */
export type RestEvent =
  /** `work`: something that had to happen has not. `leftover`: something that had to go away has not. */
  | { readonly type: 'left'; readonly what: 'work' | 'leftover'; readonly text: string }
  /** How often something happened while nothing was to be done, and how often it may. */
  | {
      readonly type: 'stirred'
      readonly who: string
      readonly what: string
      readonly count: number
      readonly allowed: number
    }
