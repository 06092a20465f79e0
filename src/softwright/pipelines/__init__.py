"""From a target to a `Built`: one file for each verb that users call. Import the verbs from `softwright` itself."""
