part("outcomes/mindspore/pynative-layers", "eNqrVkpKLM5MLtZPzs8r0y1KzSnVTcrJT85WslKINtNRUCrKTM8oUQIyYkqNzA2NlZCFlGJrAZS8ExY=");
